"""Real tools beside the embedded simulator, played by small executables."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tilewright.cli.main import app
from tilewright.core.errors import (
    ConfigurationError,
    ToolchainMissingError,
    UnknownNameError,
)
from tilewright.core.records import Candidate, EvaluationRequest, ExternalResult, Failed, Measured
from tilewright.evaluation.pipeline import evaluate
from tilewright.sandbox import find_sandbox
from tilewright.targets.gemmini import create_target
from tilewright.targets.gemmini.external.tools import CHIPYARD, find_tool
from tilewright.targets.gemmini.parameters import CONFIGURATIONS
from tilewright.targets.gemmini.target import GemminiTarget
from tilewright.targets.gemmini.toolchain import find_gcc, find_zig

from .kernels import GOOD, with_line

pytestmark = [
    pytest.mark.toolchain,
    pytest.mark.skipif(
        find_gcc() is None and find_zig() is None, reason="no RISC-V cross compiler"
    ),
]

HONEST = """
from pathlib import Path
from tilewright.targets.gemmini.sim import CONFIGURATIONS, load_config, run_program
program = Path(sys.argv[-1]).read_bytes()
config = load_config(CONFIGURATIONS["gemmini-int8-16x16"])
ran = run_program(config, program, read=[(0x80001100, 512)])
words = ran.outputs[0].rstrip(b"\\0").decode().split()
words[2] = f"{ran.cycles:x}"
line = " ".join(words)
"""
"""Runs the program it is given on the embedded simulator; `line` is what the program prints."""

STAND_INS = {
    "silent": ("pass", "no_result", "ended with status 0 and printed no result"),
    "failing": ("print('boom'); sys.exit(3)", "no_result", "status 3 and printed no result"),
    "forging": ("print('tilewright 12 1 1 0 0 0')", "no_result", "of another program"),
    "garbled": ("print('tilewright here is a number')", "no_result", "of another program"),
    "forging beside": (
        HONEST + "print('tilewright 12 1 1 0 0 0'); print(line)", "no_result",
        "of another program"),
    "repeating": (HONEST + "print(line); print(line)", "no_result", "more than one result"),
    "cut short": (HONEST + "print(line[:60])", "no_result", "an incomplete result"),
    "miscomputing": (
        HONEST + "words[-1] = '0'; print(*words)", "wrong_result", "not those of the embedded"),
    "flooding": ("while True: print('x' * 10000)", "no_result", "printed no result"),
}  # fmt: skip


def stand_in(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable}\nimport os, subprocess, sys, time\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def spike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return tmp_path / "bin" / "spike"


def run(source: str = GOOD, simulator: str = "spike", timeout_s: float = 60) -> object:
    return create_target().open("gemm-16x16x16", {}).external(simulator)(source, timeout_s)


def test_spike_checks_function(spike: Path) -> None:
    stand_in(spike, HONEST + "assert sys.argv[1] == '--extension=gemmini'; print(line)")
    result = run()
    assert isinstance(result, ExternalResult), result
    assert (result.simulator, result.latency) == ("spike", None)
    assert result.instructions > 0


def test_a_wrong_kernel_is_found_by_the_tool_too(spike: Path) -> None:
    stand_in(spike, HONEST + "print(line)")
    result = run(with_line(8, "  compute_preloaded(SPAD(0), SPAD(0), 16, 16, 16, 16);"))
    assert isinstance(result, Failed)
    assert result.kind == "wrong_result"


def test_a_kernel_that_does_not_build(spike: Path) -> None:
    stand_in(spike, "")
    result = run("void kernel(void) { undefined_function(); }")
    assert isinstance(result, Failed)
    assert (result.stage, result.kind) == ("build", "link_error")


def test_a_kernel_cannot_name_the_result_channel(spike: Path) -> None:
    stand_in(spike, HONEST + "print(line)")
    result = run("extern unsigned long ARGUMENTS[];\nvoid kernel(void) { ARGUMENTS[0] = 0; }")
    assert isinstance(result, Failed)
    assert result.kind == "link_error"


@pytest.mark.parametrize("name", STAND_INS)
def test_what_a_tool_prints_is_not_trusted(spike: Path, name: str) -> None:
    script, kind, message = STAND_INS[name]
    stand_in(spike, script)
    result = run()
    assert isinstance(result, Failed), result
    assert (result.stage, result.kind) == ("measure", kind)
    assert message in result.log


def test_a_hanging_tool_is_killed_with_its_children(spike: Path) -> None:
    unlikely = f"1000.{secrets.randbelow(10**12):012}"
    stand_in(spike, f"subprocess.Popen(['sleep', '{unlikely}'])\ntime.sleep(1000)")
    started = time.monotonic()
    result = run(timeout_s=2)
    assert isinstance(result, Failed)
    assert result.kind == "timeout"
    assert time.monotonic() - started < 120
    while _alive(unlikely):  # it has been sent the signal, and dies when it is next scheduled
        assert time.monotonic() - started < 120
        time.sleep(0.05)


def _alive(word: str) -> bool:
    """Whether a process with this word in its command line is there (a zombie has none)."""
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if word.encode() in process.read_bytes():
                return True
    return False


@pytest.mark.skipif(find_sandbox().name.startswith("rlimits"), reason="no containment here")
def test_a_tool_writes_only_beside_its_program(spike: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    stand_in(spike, f"open({str(outside)!r}, 'w')")
    result = run()
    assert isinstance(result, Failed)
    assert "PermissionError" in result.log or "Read-only" in result.log
    assert not outside.exists()


def test_verilator_and_firesim_come_from_chipyard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CHIPYARD, str(tmp_path))
    verilator = tmp_path / "sims/verilator/simulator-chipyard.harness-CustomGemminiSoCConfig"
    stand_in(verilator, HONEST + "assert sys.argv[1] == '+permissive'; print('noise ' + line)")
    stand_in(tmp_path / "sims/firesim/deploy/tilewright-run", HONEST + "print(line)")
    # Large enough that a cold start, some 200 cycles with any compiler, is a small part.
    task = create_target().open("gemm-64x64x64", {})
    embedded = evaluate(task.evaluator, EvaluationRequest(Candidate(task.start)))
    assert isinstance(embedded, Measured)
    for name in ("verilator", "firesim"):
        result = task.external(name)(task.start, 60)
        assert isinstance(result, ExternalResult), result
        assert result.latency is not None
        # The same model, but the harness leaves the instruction cache in another state.
        assert abs(result.latency - embedded.latency) < 0.3 * embedded.latency


FLOATS = """
import io
from pathlib import Path
import numpy as np
from elftools.elf.elffile import ELFFile
from tilewright.targets.gemmini.sim import CONFIGURATIONS, load_config, run_program
data = Path(sys.argv[-1]).read_bytes()
symbols = ELFFile(io.BytesIO(data)).get_section_by_name(".symtab")
(result,) = symbols.get_symbol_by_name("argument2")
config = load_config(CONFIGURATIONS["gemmini-fp32-4x4"])
read = [(0x80001100, 512), (result["st_value"], 8 * 8 * 4)]
ran = run_program(config, data, read=read)
line = ran.outputs[0].rstrip(b"\\0").decode().split()
line[-1] = "0"
values = np.frombuffer(ran.outputs[1], np.float32)
def show(values):
    words = " ".join(f"{w:016x}" for w in values.astype(np.float32).view(np.uint64).tolist())
    print(f"tilewright-values {line[1]} 2 {words}")
print(*line)
"""


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        ("show(np.nextafter(values, np.float32(np.inf)))", None),
        ("show(values + 1)", "elements of C differ"),
        ("show(values[:-2])", "argument 2 were not printed completely"),
        ("", "argument 2 were not printed completely"),
        ("show(values); show(values)", "argument 2 were not printed completely"),
        ("line[1] = '12'; show(values)", "argument 2 were not printed completely"),
    ],
)
def test_floats_are_compared_in_value(spike: Path, shown: str, message: str | None) -> None:
    """Hardware may round sums in another order than the model: bits may differ, values not."""
    stand_in(spike, FLOATS + shown)
    fp32 = GemminiTarget("gemmini-fp32-4x4", CONFIGURATIONS["gemmini-fp32-4x4"])
    task = fp32.open("gemm-8x8x8", {})
    result = task.external("spike")(task.start, 60)
    if message is None:
        assert isinstance(result, ExternalResult), result
    else:
        assert isinstance(result, Failed)
        assert result.kind == "wrong_result"
        assert message in result.log


def test_a_target_file_names_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CHIPYARD, raising=False)
    stand_in(tmp_path / "chips/sims/verilator/simulator-chipyard-GemminiRocketConfig", HONEST +
             "print(line)")  # fmt: skip
    file = tmp_path / "mine.toml"
    file.write_text('base = "gemmini-int8-16x16"\n[tools]\nchipyard = "chips"\n')
    target = create_target().configured(file)
    findings = {name: usable for name, usable, _ in target.doctor()}
    assert findings["verilator"] is True
    assert findings["firesim"] is None
    assert isinstance(target.open("gemm-16x16x16", {}).external("verilator")(GOOD, 60),
                      ExternalResult)  # fmt: skip
    assert target.instance.config.digest == create_target().instance.config.digest
    file.write_text('base = "gemmini-int8-16x16"\n[tools]\nchipyard = "nowhere"\n')
    with pytest.raises(ConfigurationError, match="is not a folder"):
        _ = create_target().configured(file)


def test_missing_and_unknown_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(CHIPYARD, raising=False)
    for name in ("spike", "verilator", "firesim"):
        with pytest.raises(ToolchainMissingError, match=f"{name} was not found: .*chipyard"):
            find_tool(name)
    with pytest.raises(UnknownNameError, match="did you mean 'spike'"):
        find_tool("spyke")
    findings = {name: usable for name, usable, _ in create_target().doctor()}
    assert findings["spike"] is findings["verilator"] is findings["firesim"] is None


def test_evaluate_reports_the_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHIPYARD, str(tmp_path))
    stand_in(tmp_path / "sims/verilator/simulator-chipyard-GemminiRocketConfig",
             HONEST + "words[2] = f'{1000:x}'; print(*words)")  # fmt: skip
    (tmp_path / "kernel.c").write_text(GOOD)
    command = [
        "evaluate", str(tmp_path / "kernel.c"), "--workload", "gemmini:gemm-16x16x16",
        "--simulator", "verilator", "--json", str(tmp_path / "result.json"),
    ]  # fmt: skip
    ended = CliRunner().invoke(app, command)
    assert ended.exit_code == 0, ended.output
    written = json.loads((tmp_path / "result.json").read_text())
    external = written["external"]
    assert (external["simulator"], external["latency"], external["unit"]) == (
        "verilator", 1000, "cycles",
    )  # fmt: skip
    assert external["difference"] == pytest.approx(written["latency"] / 1000 - 1)
    assert "verilator: correct" in ended.output
    assert "the latency of the built-in simulator differs by" in ended.output
