"""The command from words to a folder. Needs the extra `tune` and a C compiler."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest
from toy_cli import Cli

if find_spec("tvm") is None:
    pytest.skip("needs the extra 'tune' (TVM)", allow_module_level=True)
if shutil.which("g++") is None and shutil.which("clang++") is None:
    pytest.skip("needs a C++ compiler to link kernels", allow_module_level=True)

from tilewright.cli.tune_progress import TuneProgress
from tilewright.cli.tune_result import show_result
from tilewright.core.tuning_records import TuningRecord
from tilewright.tuner.tvm.runner import Measurement, Rounds, Runner
from tilewright.tuner.tvm.trials import Ledger
from tilewright.tuning.runs import TuneResult


def test_a_run_is_shown_and_written(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = "tune matmul 16 16 16 --budget 3trials --search random --json out.json --no-color"
    result = cli(*words.split())
    assert result.code == 0, result.err
    assert "3, of which 3 measured now" in result.out
    assert "numpy (BLAS)" in result.out
    assert "1/3 trials: best" in result.err
    facts = json.loads(Path("out.json").read_text())
    assert facts == json.loads(Path("tuned-matmul-16x16x16/result.json").read_text())
    assert facts["trials"] == 3


@pytest.mark.parametrize(
    ("options", "pretrained"),
    [("", True), ("--no-pretrained", False), ("--features tvm164", False)],
)
def test_a_gradient_search_begins_with_a_trained_model_unless_told_otherwise(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str, pretrained: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    result = cli(
        *f"tune matmul 16 16 16 --budget 1trials --json out.json --no-color {options}".split()
    )
    assert result.code == 0, result.err
    assert json.loads(Path("out.json").read_text())["method"]["pretrained"] is pretrained


def test_finalists_that_all_fail_again_end_a_run_with_a_sentence(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def all_crash(self: Runner, libraries: Sequence[Path], *_: object, **__: object) -> Rounds:
        crashed = Measurement(failure="crashed", log="the candidate ended with SIGSEGV")
        return Rounds({}, None, dict.fromkeys(range(len(libraries)), crashed))

    monkeypatch.setattr(Runner, "interleave", all_crash)
    monkeypatch.chdir(tmp_path)
    words = "tune matmul 16 16 16 --budget 2trials --search random --json out.json --no-color"
    result = cli(*words.split())
    assert result.code == 1
    shown = " ".join(result.out.split())  # the table wraps its sentences
    assert "each of the best kernels failed when it was measured again" in shown
    assert "crashed when measured again (the candidate ended with SIGSEGV)" in shown
    told = json.loads(Path("out.json").read_text())["failed_again"]
    assert [failed["failure"] for failed in told] == ["crashed", "crashed"]


def test_a_run_stopped_before_its_first_candidate_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    record = TuningRecord("abc", "same", "M0", "family", (2, 2), "cpu", {}, {})
    result = TuneResult(record, [], Ledger(), 0, None, [], {}, interrupted=True)
    show_result(result, TuneProgress(1, 1, 0.0), Path("out"))
    assert "no candidate was measured yet" in capsys.readouterr().out


def test_a_function_that_cannot_be_tiled_is_refused(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from tvm import te, topi\n"
        "def make():\n"
        "    x = te.placeholder((8, 8), name='x')\n"
        "    return te.create_prim_func([x, topi.nn.softmax(x)])\n"
    )
    result = cli("tune", f"{file}:make", "--project", str(tmp_path))
    assert result.code == 2
    assert "cannot be tiled" in result.err
    assert len(result.err.strip().splitlines()) == 1
    assert not (tmp_path / ".tilewright").exists()
