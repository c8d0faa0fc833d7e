"""`tilewright tool`: one step of work on a kernel, kept in a run."""

from __future__ import annotations

import json
from pathlib import Path

from toy_cli import Cli, World

from tilewright.testing.toy import START

ON = ("--workload", "toy:digits", "--budget", "4 evaluations")
LOWER = "toy 9 9 9 9 8\n"


def test_evaluated_kernels_stay_in_one_run(world: World, cli: Cli) -> None:
    Path("a.toy").write_text(LOWER)
    first = cli("tool", "evaluate", "a.toy", *ON, "--note", "one less", "--json", "a.json")
    assert first.code == 0
    assert "compared with the parent" in first.out
    assert "-5 (-2.13%)" in first.out
    assert "2 evaluations left" in first.out
    written = json.loads(Path("a.json").read_text())
    assert (written["answer"], written["latency"], written["trial"]) == ("evaluated", 230.0, 1)
    again = cli("tool", "evaluate", "a.toy", *ON)
    assert "known before" in again.out
    tried = cli("tool", "tried", "start", *ON)
    assert "one less" in tried.out
    assert len(world.evaluated) == 2  # the starting kernel and one more
    assert "2 evaluations" in cli("runs", "list").out or cli("runs", "show", "latest").code == 0


def test_try_sets_kernels_side_by_side(world: World, cli: Cli) -> None:
    Path("a.toy").write_text(LOWER)
    Path("b.toy").write_text("toy 9 9 9 -1 9\n")
    found = cli("tool", "try", "a.toy", "b.toy", "start", *ON)
    assert found.code == 0
    rows = found.out.splitlines()[2:5]
    assert [row.split()[2] for row in rows] == ["correct", "wrong", "correct"]


def test_an_empty_file_is_one_sentence(world: World, cli: Cli) -> None:
    for text in ("", " \n"):
        Path("a.toy").write_text(text)
        for command in ("evaluate", "tool evaluate"):
            found = cli(*command.split(), "a.toy", "--workload", "toy:digits")
            assert found.code == 2
            assert found.err.startswith("error: kernel file a.toy is empty. Give a ")
            assert "needs the argument" not in found.err
    assert world.evaluated == []


def test_a_spent_budget_is_one_sentence(world: World, cli: Cli) -> None:
    for digit in range(5):
        Path("a.toy").write_text(f"toy 9 9 9 9 {digit}\n")
        last = cli(
            "tool", "evaluate", "a.toy", "--workload", "toy:digits", "--budget", "1 evaluation"
        )
        if last.code:
            break
    assert last.code == 2
    assert "budget" in last.err
    assert "Traceback" not in last.err


def test_facts_begin_no_run(world: World, cli: Cli) -> None:
    found = cli("tool", "facts", *ON)
    assert found.code == 0
    assert "toy: 1 (this machine)" in found.out
    assert world.evaluated == []


def test_bad_input_is_one_sentence(world: World, cli: Cli) -> None:
    Path("a.toy").write_text(START)
    for words, said in {
        ("tool", "rate", *ON): "unknown tool 'rate'",
        ("tool", "evaluate", *ON): "evaluate needs the argument kernel",
        ("tool", "evaluate", "a.toy", "a.toy", *ON): "needs one kernel",
        ("tool", "evaluate", "missing.toy", *ON): "missing.toy",
        ("tool", "evaluate", "0123456789abcdef", *ON): "was not evaluated",
        ("tool", "facts", "a.toy", *ON): "unknown argument of facts 'kernel'",
        ("tool", "profile", "--parent", "abcdef012345", *ON): "not a kernel of this run",
    }.items():
        found = cli(*words)
        assert found.code == 2, words
        assert said in found.err
        assert found.err.count("\n") <= 3
