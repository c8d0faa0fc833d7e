"""What is printed cannot command the terminal it is printed on."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.table import Table
from rich.text import Text

from tilewright.bundles import Row, Verification
from tilewright.cli.bundle import _print
from tilewright.cli.console import PlainConsole, results, say, write_out
from tilewright.cli.evaluate import _print_failed
from tilewright.cli.file_names import with_file_name
from tilewright.cli.main import _complain
from tilewright.core.records import Artifact, Candidate, EvaluationRequest, Failed
from tilewright.evaluation.pipeline import evaluate

HOSTILE = "\x1b[2J\x1b]0;title\x07log\x9b31m \u202ered"
PLAIN = "log \ufffdred"


def test_a_console_prints_its_own_colours_only() -> None:
    file = io.StringIO()
    console = PlainConsole(file=file, force_terminal=True, width=60, color_system="standard")
    table = Table("heading")
    table.add_row(Text(HOSTILE, style="red"))
    console.print(table)
    console.print(HOSTILE, markup=False)
    printed = file.getvalue()
    assert printed.count("log \ufffdred") == 2
    assert "\x1b[31m" in printed  # the table's red
    assert "\x1b[2J" not in printed
    assert "\x07" not in printed


def test_lines_and_errors_are_plain(capsys: pytest.CaptureFixture[str]) -> None:
    say(HOSTILE)
    _complain(HOSTILE * 1000)
    captured = capsys.readouterr()
    assert captured.out == PLAIN + "\n"
    assert PLAIN in captured.err
    assert "\x1b[2J" not in captured.err
    assert len(captured.err) < 3000


@pytest.mark.parametrize(("terminal", "shown"), [(False, HOSTILE), (True, PLAIN)])
def test_a_source_is_exact_unless_a_person_reads_it(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    terminal: bool,
    shown: str,
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    write_out(HOSTILE)
    assert capsys.readouterr().out == shown


def test_a_log_is_plain_before_anybody_reads_it() -> None:
    class Builder:
        def build(self, candidate: Candidate) -> Artifact | Failed:
            return Failed("build", "compile_error", f"kernel.c:1: {HOSTILE}", 1)

    outcome = evaluate((Builder(), None, None), EvaluationRequest(Candidate("x")))  # type: ignore[arg-type]
    assert isinstance(outcome, Failed)
    assert outcome.log == f"kernel.c:1: {PLAIN}"


def test_a_failure_names_the_file_of_the_user_once(capsys: pytest.CaptureFixture[str]) -> None:
    failed = Failed("check", "not_checked", "kernel.py:2: not checked: a loop.", 2)
    evaluation = SimpleNamespace(workload="problem", candidate=Candidate("x = 1\nfor y in x:"))
    _print_failed(PlainConsole(width=200), evaluation, failed, Path("answer.py"))  # type: ignore[arg-type]
    out = capsys.readouterr().out
    assert "answer.py:2: for y in x:\nnot checked: a loop." in out
    assert "kernel.py" not in out


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kernel.py:1: err_syntax: x", "mine/g.c:1: err_syntax: x"),
        ("line 7: this cannot be parsed as C.", "mine/g.c:7: this cannot be parsed as C."),
        (
            "kernel.c: In function 'kernel':\nkernel.c:2:11: error: 'y'",
            "mine/g.c: In function 'kernel':\nmine/g.c:2:11: error: 'y'",
        ),
        ("kernel.cu(1): error: x", "mine/g.c(1): error: x"),
        ("step 'hoist' is not known.", "step 'hoist' is not known."),
    ],
)
def test_a_message_names_the_file_of_the_user(text: str, expected: str) -> None:
    assert with_file_name(text, Path("mine/g.c")) == expected


def test_the_table_of_verify_fits_a_pipe_and_keeps_words_whole(
    capsys: pytest.CaptureFixture[str],
) -> None:
    recorded, here = (f"riscv64-unknown-elf-gcc (Debian) {n}" for n in ("12.2.0-14+1", "13.1.0-2"))
    rows = (
        Row("simulator", "1.4", "1.4", True),
        Row("compiler", recorded, here, False),
        Row("starting kernel", "5432.1 us", "5433.2 us", True),
        Row("starting kernel's binary", "0123456789abcdef", "fedcba9876543210", False),
        Row("task", "gemm", "gemm", False, matters=True),
    )
    _print(Verification("host-c:gemm", rows, (), 2.0, 2.0))
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    words = shown.split()
    assert words.count("riscv64-unknown-elf-gcc") == 2
    for word in ("12.2.0-14+1", "13.1.0-2", "(differs)", "0123456789abcdef", "5433.2"):
        assert word in words
    assert "1.4 the same" in " ".join(words)
    assert "gemm (differs)" in " ".join(words)


def test_sentences_are_not_wrapped_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    sentence = "a sentence of many words " * 8
    results().print(Text(sentence))
    assert capsys.readouterr().out == sentence + "\n"
