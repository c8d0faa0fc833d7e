"""Which copies of an instruction test each other."""

from __future__ import annotations

from tilewright.targets.gemmini.examination import _untested
from tilewright.targets.gemmini.recorded import Recorded

SAME = [(1, 1)] * 4
OTHER = [(2, 0), (3, 0), (4, 0), (5, 0)]
NONE = (0, 0)


def recorded(results: list[tuple[int, int]], read: list[tuple[int, int]]) -> Recorded:
    return Recorded(
        is_number=True, operands=OTHER, results=results, values=[(one, NONE, NONE) for one in read]
    )


def test_a_copy_tests_another_one_only_with_other_results_of_other_numbers() -> None:
    untested = recorded(SAME, OTHER)
    assert recorded(OTHER, OTHER).tests(untested)
    assert not recorded(SAME, OTHER).tests(untested)
    assert not recorded([], OTHER).tests(untested)
    picked = recorded(OTHER, SAME)
    assert recorded(OTHER, OTHER).tests(picked)
    assert not recorded(OTHER, SAME).tests(picked)
    assert not recorded(OTHER, [NONE] * 4).tests(picked)


def test_a_jump_or_a_condition_with_one_result_tests_nothing() -> None:
    untested = recorded(SAME, OTHER)
    assert not Recorded(was_true=True, results=OTHER).tests(untested)
    assert Recorded(was_true=True, was_false=True, results=OTHER).tests(untested)
    assert not recorded(OTHER, OTHER).tests(Recorded(is_jump=True))


def test_what_depends_on_earlier_calls_is_untested_whatever_a_copy_does() -> None:
    kept = recorded(OTHER, OTHER)
    assert not kept.is_untested(4, ())
    kept.is_kept = True
    assert kept.is_untested(4, ())
    assert not recorded(OTHER, OTHER).tests(kept)


def test_a_number_is_found_among_the_results_of_all_copies() -> None:
    reader = recorded(OTHER, SAME)
    reader.producers = [{1}, set(), set()]
    settled = Recorded(is_number=True, operands=SAME, results=SAME, values=[(NONE,) * 3] * 4)
    results = {1: settled, 2: recorded(OTHER, OTHER), 3: reader}
    assert _untested(Recorded.is_untested, results, 4, {}) == []
    assert _untested(Recorded.is_untested, results, 4, {1: (1, 2), 2: (1, 2)}) == [3]
