"""The list of mutants fits the code: each applies at one place, and its tests exist."""

from __future__ import annotations

import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "mutants"))
from listed import ROOT, CodeIsGone, Mutant, listed

MUTANTS = listed()


def test_no_two_mutants_share_an_id() -> None:
    assert [name for name, count in Counter(m.id for m in MUTANTS).items() if count > 1] == []


@pytest.mark.parametrize("file", sorted({mutant.file for mutant in MUTANTS}))
def test_each_mutant_applies_at_one_place_and_is_valid_python(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    for mutant in MUTANTS:
        if mutant.file == file:
            changed = mutant.applied_to(text)
            assert changed != text, mutant.id
            if file.endswith(".py"):
                compile(changed, f"mutant {mutant.id} of {file}", "exec")


def test_each_mutant_names_its_rule_and_tests_that_exist() -> None:
    text = cache(lambda file: (ROOT / file).read_text(encoding="utf-8"))
    for mutant in MUTANTS:
        assert mutant.rule, mutant.id
        assert mutant.tests, mutant.id
        for test in mutant.tests:
            file, *names = test.partition("[")[0].split("::")
            assert (ROOT / file).exists(), (mutant.id, test)
            found = [f"def {n}(" in text(file) or f"class {n}" in text(file) for n in names]
            assert all(found), (mutant.id, test)


@pytest.mark.parametrize("text", ["a = 2", "a = 1; a = 1"])
def test_a_mutant_whose_code_is_not_there_once_is_reported(text: str) -> None:
    mutant = Mutant("X1", "some.py", "a rule", "a = 1", "a = 3", ("some_test.py",))
    with pytest.raises(CodeIsGone, match=r"X1: the code that it replaces occurs [02] times"):
        mutant.applied_to(text)
