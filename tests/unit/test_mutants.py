"""The list of mutants fits the code: each applies at one place, and its tests exist."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "mutants"))
from listed import ROOT, CodeIsGone, Mutant, listed

MUTANTS = listed()


def test_no_two_mutants_share_an_id() -> None:
    assert [name for name, count in Counter(m.id for m in MUTANTS).items() if count > 1] == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.id)
def test_a_mutant_applies_at_one_place_and_is_valid_python(mutant: Mutant) -> None:
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    changed = mutant.applied_to(text)
    assert changed != text
    if mutant.file.endswith(".py"):
        compile(changed, mutant.file, "exec")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.id)
def test_a_mutant_names_its_rule_and_tests_that_exist(mutant: Mutant) -> None:
    assert mutant.rule
    assert mutant.tests
    for test in mutant.tests:
        file, *names = test.split("::")
        assert (ROOT / file).exists(), test
        text = "" if not names else (ROOT / file).read_text(encoding="utf-8")
        assert all(f"def {name}(" in text or f"class {name}" in text for name in names), test


@pytest.mark.parametrize("text", ["a = 2", "a = 1; a = 1"])
def test_a_mutant_whose_code_is_not_there_once_is_reported(text: str) -> None:
    mutant = Mutant("X1", "some.py", "a rule", "a = 1", "a = 3", ("some_test.py",))
    with pytest.raises(CodeIsGone, match=r"X1: the code that it replaces occurs [02] times"):
        mutant.applied_to(text)
