"""The runner of mutants tells what became of one, and runs tests in forks that see changed code."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "mutants"))
import run
from forks import Plugin
from listed import Mutant
from run import Copy, Judged, Results

FOLDER = Path(__file__).parents[1] / "mutants"
RULE = "A sum has both of its terms"
MUTANT = Mutant("X1", "sums.py", RULE, "a + b", "a", ("test_sums.py",))
PASSED = run.Tested(True, (), "1 passed")


class FakeCopy(Copy):
    """Tests that say what they are told to; the text of the file while each of them runs."""

    def __init__(self, root: Path, *answers: run.Tested) -> None:
        self._root, self._answers = root, iter(answers)
        self.texts: list[str] = []
        (root / MUTANT.file).write_text("def f(a, b):\n    return a + b\n")

    def run(self, tests: object, rule: str = "", timeout_s: float | None = None) -> run.Tested:
        self.texts.append((self._root / MUTANT.file).read_text())
        return next(self._answers)


@pytest.mark.parametrize(
    ("tested", "equivalent", "result", "noticed_by"),
    [
        (PASSED, "", "survived", ()),
        (PASSED, "the terms are equal", "equivalent", ()),
        (
            run.Tested(False, ("test_sums.py::test_f",), "1 failed"),
            "",
            "killed",
            "test_sums.py::test_f",
        ),
        (run.Tested(False, (), "timed out after 600 s"), "", "killed", "test_sums.py"),
        (run.Tested(False, ("t",), "1 failed"), "the terms are equal", "not equivalent", "t"),
    ],
)
def test_what_becomes_of_a_mutant(
    tmp_path: Path, tested: run.Tested, equivalent: str, result: str, noticed_by: str
) -> None:
    copy = FakeCopy(tmp_path, tested)
    judged = copy.judge(replace(MUTANT, equivalent=equivalent))
    assert judged.result == result
    assert judged.noticed_by == ((noticed_by,) if noticed_by else ())
    assert copy.texts == ["def f(a, b):\n    return a\n"]
    assert "a + b" in (tmp_path / MUTANT.file).read_text()  # it is put back


def test_a_mutant_whose_code_is_gone_is_not_tested(tmp_path: Path) -> None:
    copy = FakeCopy(tmp_path)
    assert copy.judge(replace(MUTANT, before="a - b")).result == "code is gone"
    assert copy.texts == []


def test_results_are_found_again_until_an_entry_changes(tmp_path: Path) -> None:
    file = tmp_path / "results"
    Results(file).add(MUTANT, Judged("killed", "1 failed", ("t",)), 2.0)
    assert Results(file).of(MUTANT) == Judged("killed", "1 failed", ("t",))
    assert Results(file).of(replace(MUTANT, after="b")) is None
    assert Results(None).of(MUTANT) is None


def test_a_test_that_fails_without_any_change_shows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noticed = run.Tested(False, ("t",), "1 failed")
    copy = FakeCopy(tmp_path, noticed, noticed)
    monkeypatch.setattr(run, "Copy", lambda folder: copy)
    monkeypatch.setattr(copy, "close", lambda: None)
    counts = run._judge_all([MUTANT], Results(None), tmp_path, 1)
    assert counts == {"shows nothing": 1}


def test_a_mutant_with_a_result_is_not_judged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = FakeCopy(tmp_path)
    monkeypatch.setattr(run, "Copy", lambda folder: copy)
    monkeypatch.setattr(copy, "close", lambda: None)
    results = Results(tmp_path / "results")
    results.add(MUTANT, Judged("survived", RULE), 2.0)
    assert run._judge_all([MUTANT], Results(tmp_path / "results"), tmp_path, 1) == {"survived": 1}
    assert copy.texts == []


@pytest.mark.parametrize(("result", "code"), [("killed", 0), ("survived", 1), ("code is gone", 1)])
def test_the_exit_code_says_whether_all_is_well(
    monkeypatch: pytest.MonkeyPatch, result: str, code: int
) -> None:
    def judge_all(chosen: Sequence[Mutant], *_: object) -> dict[str, int]:
        return {result: len(chosen)}

    monkeypatch.setattr(run, "listed", lambda: (MUTANT,))
    monkeypatch.setattr(run, "_judge_all", judge_all)
    assert run.main(["--only", "X1"]) == code


def test_an_unknown_mutant_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "listed", lambda: (MUTANT,))
    with pytest.raises(SystemExit):
        run.main(["--only", "X2"])
    assert "no mutant is called X2" in capsys.readouterr().err


def test_tests_that_share_rare_words_with_the_rule_run_first() -> None:
    names = ["test_a.py::test_terms_of_a_list", "test_a.py::test_other", "test_a.py::test_sums"]
    items: list[Any] = [Item(name) for name in names]
    Plugin("Sums and terms of a list; terms").pytest_collection_modifyitems(items)
    assert [item.nodeid for item in items] == [names[0], names[2], names[1]]


class Item:
    """A collected test, by its name."""

    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid


@pytest.fixture
def forks(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    (tmp_path / "sums.py").write_text("def f(a, b):\n    return a + b\n")
    (tmp_path / "test_sums.py").write_text(
        "from sums import f\n\ndef test_f():\n    assert f(1, 2) == 3\n"
    )
    process = subprocess.Popen(
        [sys.executable, FOLDER / "forks.py", tmp_path / "said", tmp_path / "failed"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    yield process
    process.communicate()
    assert process.returncode == 0


def test_a_fork_sees_code_that_changed_after_the_last_one(
    forks: subprocess.Popen[str], tmp_path: Path
) -> None:
    def code() -> int:
        assert forks.stdin
        assert forks.stdout
        forks.stdin.write(json.dumps([["-q", "-p", "no:cacheprovider", "."], RULE]) + "\n")
        assert int(forks.stdout.readline()) != forks.pid
        return int(forks.stdout.readline())

    assert code() == 0
    (tmp_path / "sums.py").write_text("def f(a, b):\n    return a - b * 1\n")
    assert code() == 1
    assert (tmp_path / "failed").read_text() == "test_sums.py::test_f"
    assert "1 failed" in (tmp_path / "said").read_text()
