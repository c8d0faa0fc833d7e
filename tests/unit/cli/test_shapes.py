"""`optimize --shapes` limits the time of every shape in the same way as a run for one workload."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from tilewright.cli.main import app
from tilewright.core.errors import InputError
from tilewright.families import running


def test_the_time_of_the_first_shape_is_counted_from_the_start_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[float | None] = []

    def optimize(workload: str, *_: object, **options: object) -> object:
        began.append(options.get("began"))  # type: ignore[arg-type]
        status = ("finished", "interrupted")[len(began) - 1]
        return SimpleNamespace(
            workload=workload, status=status, is_out_of_time=False, gain=None, run_id="r"
        )

    best = SimpleNamespace(candidate=SimpleNamespace(source=""))
    stored = SimpleNamespace(history=lambda _: SimpleNamespace(best=best), close=lambda: None)
    monkeypatch.setattr(running, "optimize", optimize)
    monkeypatch.setattr(running, "open_project", lambda _: stored)
    (tmp_path / "shapes.txt").write_text("gemm-32x16x16\n")
    words = ["--shapes", str(tmp_path / "shapes.txt"), "--budget", "20 s"]
    words += ["-o", str(tmp_path / "all.c"), "--project", str(tmp_path)]
    done = CliRunner().invoke(app, ["optimize", "gemmini:gemm-16x16x16", *words], obj=12.5)
    assert done.exit_code == 130, done.output
    assert began == [12.5, None]


@pytest.mark.parametrize("option", ["--record", "--replay", "--report", "--events", "--executor"])
def test_options_of_a_single_run_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.setattr(running, "optimize", None)
    (tmp_path / "shapes.txt").write_text("gemm-32x16x16\n")
    words = ["--shapes", str(tmp_path / "shapes.txt"), option, "dask", "--project", str(tmp_path)]
    done = CliRunner().invoke(app, ["optimize", "gemmini:gemm-16x16x16", *words])
    assert isinstance(done.exception, InputError)
    assert option in str(done.exception)
