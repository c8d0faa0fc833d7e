"""The order of complete sequences after some of them were measured."""

from __future__ import annotations

from tilewright.core.records import Candidate, Failed, History, Measured, Outcome, Trial, Verdict
from tilewright.proposers.loops.compiled_time import compiled_time
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.ir import Kernel
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.planning.full_sequences import Steps, Whole
from tilewright.proposers.loops.planning.learned_order import in_learned_order
from tilewright.proposers.loops.planning.steps import TECHNIQUES

SOURCE = (
    "void kernel(const float X[64][64], const float Y[64][64], float Z[64][64]) { "
    "for (int i = 0; i < 64; i++) for (int j = 0; j < 64; j++) { float s = 0.0f; "
    "for (int k = 0; k < 64; k++) s += X[i][k] * Y[j][k]; Z[i][j] = s; } }"
)
START = 1000.0


def measured(latency: float) -> Outcome:
    return Measured(latency, "ns", "measured", 0.4, Verdict(()))


def sequences() -> list[tuple[None, Steps, Kernel]]:
    whole = Whole(16, 30, frozenset(TECHNIQUES)).sequences(parse(SOURCE))
    return [(None, steps, after) for steps, after in whole]


def ordered(outcomes: dict[int, Outcome]) -> list[int]:
    """The order of the sequences, by their places before any measurement."""
    parent = Trial(0, 0, Candidate(SOURCE), measured(START))
    given = sequences()
    trials = [
        Trial(n, 1, Candidate(emit(given[place][2]), parent.candidate.id), outcome)
        for n, (place, outcome) in enumerate(outcomes.items(), 1)
    ]
    found = in_learned_order(
        given, parent, History([parent, *trials]), lambda kernel: compiled_time(kernel, 64)
    )
    return [given.index(one) for one in found]


def techniques(place: int) -> set[str]:
    return {step.technique for step, _ in sequences()[place][1]}


def expected(place: int) -> float:
    """The latency that the estimate expects."""
    return START * compiled_time(sequences()[place][2], 64) / compiled_time(parse(SOURCE), 64)


def test_without_measurements_the_shortest_estimate_comes_first() -> None:
    assert ordered({}) == [*range(len(sequences()))]


def test_measurements_that_agree_with_the_estimate_keep_its_order() -> None:
    """What was measured comes after what was not, the fastest first."""
    rest = [n for n in range(len(sequences())) if n not in (0, 1)]
    assert ordered({1: measured(expected(1)), 0: measured(expected(0))}) == [*rest, 0, 1]


def test_a_sequence_like_one_that_was_slower_than_expected_comes_later() -> None:
    """The fastest one was expected to be 25 times as fast as the start, and is not faster."""
    given = sequences()
    assert techniques(0) == techniques(1) == {"pack", "vectorise", "jam"}
    simple = next(n for n in range(len(given)) if techniques(n) == {"vectorise"})
    assert expected(0) < START / 20
    assert expected(1) < expected(simple)
    assert ordered({0: measured(START)})[0] == simple
    assert ordered({0: measured(expected(0))})[0] == 1


def test_failures_teach_nothing_and_are_not_tried_again() -> None:
    failed = Failed("check", "wrong_result", "differs")
    assert ordered({0: failed}) == [*range(1, len(sequences()))]
