"""`optimize --shapes`, from the command to a file that is right on every size."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tilewright.cli.main import app
from tilewright.families.running import ShapeSetResult
from tilewright.targets.gemmini.toolchain import find_gcc, find_zig

pytestmark = [
    pytest.mark.toolchain,
    pytest.mark.skipif(
        find_gcc() is None and find_zig() is None, reason="no RISC-V cross compiler"
    ),
]
TASK = "gemmini:gemm-16x16x16"


def tilewright(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(words))
    return done.exit_code, done.output


def test_a_set_of_shapes_becomes_one_file_that_is_right_on_others_too(tmp_path: Path) -> None:
    (tmp_path / "shapes.txt").write_text("gemm-32x16x16\n")
    files = ["-o", str(tmp_path / "all.c"), "--json", str(tmp_path / "all.json")]
    common = ["--project", str(tmp_path), "--budget", "3 evaluations", "--input-seed", "1"]
    shapes = ["--shapes", str(tmp_path / "shapes.txt")]
    code, said = tilewright("optimize", TASK, *shapes, *files, *common)
    assert code == 0, said
    found = json.loads((tmp_path / "all.json").read_text())
    assert [row["workload"] for row in found["inside"]] == [TASK, "gemmini:gemm-32x16x16"]
    assert all(row["dispatched"] for row in (*found["inside"], *found["outside"]))
    assert len(found["outside"]) == 2
    assert (
        "int kernel_dispatch(int size_M, int size_N, int size_K, const void *A"
        in (tmp_path / "all.c").read_text()
    )
    assert found["headers"] == str(tmp_path / "all_headers")
    toolchain = find_gcc() or find_zig()
    assert toolchain is not None
    command = [*toolchain.command, *toolchain.compile_flags, "-Iall_headers", "-include"]
    compiled = subprocess.run(
        [*command, "gemmini.h", "-c", "all.c", "-o", "all.o"],
        cwd=tmp_path,
        capture_output=True,
        env={**os.environ, **dict(toolchain.environment)},
        check=False,
    )
    assert compiled.returncode == 0, compiled.stderr.decode()


@pytest.mark.parametrize("option", ["--report", "--events"])
def test_files_of_one_run_are_refused(tmp_path: Path, option: str) -> None:
    shapes = ["--shapes", str(tmp_path / "shapes.txt"), "--project", str(tmp_path)]
    code, _ = tilewright("optimize", TASK, *shapes, option, str(tmp_path / "r"))
    assert code != 0
    assert not list(tmp_path.iterdir())


def test_a_result_without_a_right_shape_has_no_speedup() -> None:
    assert ShapeSetResult("", (), (), "").speedup is None
