"""The installed command on the real target, as a user runs it: killed, continued, reported."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

COMPILER = shutil.which("riscv64-unknown-elf-gcc") or find_spec("ziglang")
pytestmark = [
    pytest.mark.toolchain,
    pytest.mark.slow,
    pytest.mark.skipif(not COMPILER, reason="no RISC-V cross compiler"),
]
TILEWRIGHT = [sys.executable, "-m", "tilewright.cli"]
OPTIMIZE = [*TILEWRIGHT, "optimize", "gemmini:gemm-64x64x64", "--iterations", "2", "--beam", "1"]


def test_a_killed_search_goes_on_and_gets_faster(tmp_path: Path) -> None:
    killed = subprocess.Popen(
        OPTIMIZE, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert killed.stderr is not None
    while "evaluation" not in killed.stderr.readline():
        assert killed.poll() is None
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    killed.stderr.close()
    assert "killed" in _run("runs", "list", cwd=tmp_path).stdout
    again = _run(*OPTIMIZE[3:], "--json", "a.json", "--report", "a.html", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "continued after" in again.stderr
    result = json.loads((tmp_path / "a.json").read_text())
    assert result["verdict"] == "correct"
    assert result["speedup"] > 1.2
    assert result["best_latency"] < result["baseline_latency"]
    assert {"compiler", "simulator", "configuration", "tilewright"} <= set(result["versions"])
    assert "Winning schedule" in (tmp_path / "a.html").read_text()

    _run("best", "latest", "-o", "kernel.c", cwd=tmp_path)
    evaluated = _run(
        "evaluate", "kernel.c", "--workload", "gemmini:gemm-64x64x64", "--json", "e.json",
        cwd=tmp_path,
    )  # fmt: skip
    assert evaluated.returncode == 0, evaluated.stdout
    assert re.search(r"scratchpad written +[\d,.]+ KB", evaluated.stdout)
    numbers = json.loads((tmp_path / "e.json").read_text())
    assert numbers["latency"] == result["best_latency"]
    assert numbers["utilization"] == result["best_utilization"]
    assert numbers["instructions"] > 0
    assert numbers["breakdown"]


def test_a_kernel_that_does_not_build_is_bad_input(tmp_path: Path) -> None:
    for name, source in {"unparsable": "int main", "no-kernel": "void other(void) {}"}.items():
        (tmp_path / f"{name}.c").write_text(source)
        refused = _run(
            "evaluate", f"{name}.c", "--workload", "gemmini:gemm-16x16x16", "--json", "e.json",
            cwd=tmp_path,
        )  # fmt: skip
        assert refused.returncode == 2
        assert f"kernel file {name}.c does not build" in refused.stderr
        assert "Traceback" not in refused.stderr
        written = json.loads((tmp_path / "e.json").read_text())
        assert written["failure"]["stage"] == "build"


@pytest.fixture
def heard_sigint() -> Iterator[None]:
    """Programs started here hear Ctrl-C, also where a shell's background job would ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard_sigint")
def test_ctrl_c_in_the_middle_leaves_no_process_behind(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*TILEWRIGHT, "optimize", "gemmini:gemm-512x512x512"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert "run " in process.stderr.readline()
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=120)  # a plan in the making is finished first
    assert process.returncode == 130
    assert "tilewright runs resume" in out
    workers = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert not [w for w in workers.stdout.splitlines() if w.endswith(f" {process.pid}")]


def _run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TILEWRIGHT, *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )
