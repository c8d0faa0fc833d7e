"""Weak tasks are refused, whatever makes them weak; sound ones are not."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tilewright.core.errors import InternalError, WorkloadError
from tilewright.core.records import (
    Argument,
    Artifact,
    AttackResult,
    Check,
    Failed,
    Verdict,
    Workload,
)
from tilewright.core.roles import NOTHING_CHECKED
from tilewright.evaluation.preflight import guesses, session
from tilewright.evaluation.preflight.examine import examine, refusal
from tilewright.testing.scripted import ScriptedEvaluator

ROWS, COLUMNS = 40, 24


def product(a: Any, bias: Any) -> Any:
    return np.clip(a.astype(int) * 3 + bias, -128, 127).astype(np.int8)


@dataclass
class World:
    """A task of C = sat8(3 A + bias), with knobs that make its check or inputs weak."""

    reference: Callable[[Any, Any], Any] = product
    dtype: str = "int8"
    high: int = 127
    absolute: float = 0.0
    rows: int = ROWS
    same_inputs: bool = False
    ignores_all: bool = False
    wrong_share: float = 0.0
    poison: int | None = None
    careless: Mapping[str, float] = field(default_factory=dict)
    omitted: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.workload = Workload(
            "weak:task",
            "weak",
            (
                Argument("A", (ROWS, COLUMNS), self.dtype, "input"),
                Argument("bias", (COLUMNS,), self.dtype, "input"),
                Argument("C", (ROWS, COLUMNS), self.dtype, "output"),
            ),
            ROWS * COLUMNS,
        )

    def check_cases(self) -> Sequence[Case]:
        return [Case(self, 0 if self.same_inputs else seed) for seed in range(4)]

    def hostile_kernels(self) -> Mapping[str, str]:
        return {}

    def omissions(self) -> Mapping[str, str]:
        return self.omitted


class Case:
    distribution = "uniform"

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self.arguments = world.workload.arguments
        rng = np.random.default_rng(seed)
        self.given: dict[str, bytes] = {}
        for argument in world.workload.arguments:
            if argument.role == "output" and world.poison is not None:
                array = np.full(argument.shape, world.poison)
            elif argument.dtype == "int8":
                array = rng.integers(-world.high, world.high, argument.shape, endpoint=True)
            elif argument.dtype == "uint32":
                array = rng.integers(0, world.high, argument.shape, endpoint=True)
            else:
                array = rng.standard_normal(argument.shape) * world.high
            self.given[argument.name] = array.astype(argument.dtype).tobytes()

    @property
    def expected(self) -> Mapping[str, bytes]:
        return self.reference({n: self.given[n] for n in ("A", "bias")})

    def reference(self, given: Mapping[str, bytes]) -> Mapping[str, bytes]:
        a, bias = (np.frombuffer(given[n], self._world.dtype) for n in ("A", "bias"))
        return {"C": self._world.reference(a.reshape(ROWS, COLUMNS), bias).tobytes()}

    @property
    def careless(self) -> Mapping[str, float]:
        return self._world.careless

    def mismatch(self, outputs: Mapping[str, bytes]) -> str | None:
        got, right = (
            np.frombuffer(o["C"], self._world.dtype).astype(float).reshape(ROWS, COLUMNS)
            for o in (outputs, self.expected)
        )
        wrong = np.abs(got - right)[: self._world.rows] > self._world.absolute
        share = 1.0 if self._world.ignores_all else self._world.wrong_share
        return "differs" if wrong.mean() > share else None


def accepted(world: World) -> set[str]:
    return {result.name for result in examine(world) if result.verdict == "accepted"}


def test_a_sound_task_rejects_everything() -> None:
    results = examine(World())
    assert {result.verdict for result in results} == {"rejected"}
    assert len(results) >= 18
    assert refusal("weak:task", results) is None
    assert all(result.log for result in results)


def test_a_sound_task_of_floats() -> None:
    world = World(lambda a, bias: a * 3 + bias, dtype="float32", absolute=1e-3)
    assert accepted(world) == set()


def test_small_results_without_a_sign_are_not_made_negative() -> None:
    world = World(lambda a, bias: np.where(a > 100, 5000, 1).astype(a.dtype), dtype="uint32")
    results = {r.name: r for r in examine(world)}
    assert results["one wrong element"].verdict == "rejected"


def test_a_check_that_compares_nothing_accepts_everything() -> None:
    results = examine(World(ignores_all=True))
    assert {result.verdict for result in results} == {"accepted"}


WEAK = {
    "absolute tolerance over small outputs": (
        World(lambda a, bias: a * 1e-6, dtype="float32", high=1, absolute=1e-3),
        {"zeros", "one wrong element", "ignored bias"}),
    "a tolerance wider than one element": (World(absolute=8), {"one wrong element"}),
    "a share of wrong elements allowed": (
        World(wrong_share=0.01), {"one wrong element", "skipped element"}),
    "the last row not compared": (
        World(rows=ROWS - 1), {"skipped tail", "skipped element"}),
    "equal inputs in every comparison": (
        World(same_inputs=True), {"previous result", "memoised by input"}),
    "an input without influence": (
        World(lambda a, bias: product(a, 0 * bias)), {"ignored bias"}),
    "zero inputs": (World(high=0), {"zeros", "constant", "ignored A", "sign flip"}),
    "outputs that always saturate": (
        World(lambda a, bias: np.full_like(a, 127)), {"extreme", "off by one, rows"}),
    "outputs that are not poisoned": (
        World(lambda a, bias: np.zeros_like(a) + 5, poison=5), {"stale buffer", "skipped tail"}),
}  # fmt: skip


@pytest.mark.parametrize("name", WEAK)
def test_a_weak_task_accepts_what_it_must_not(name: str) -> None:
    world, expected = WEAK[name]
    found = accepted(world)
    assert expected <= found, found


def test_a_refusal_names_the_attack_and_the_remedy() -> None:
    results = examine(World(absolute=8))
    text = refusal("weak:task", results)
    assert text is not None
    assert "'one wrong element'" in text
    assert "lower the tolerance" in text
    assert text.endswith(".")


def test_a_task_that_is_a_copy_is_not_refused_for_it() -> None:
    def copy(a: Any, bias: Any) -> Any:
        return a

    results = {r.name: r for r in examine(World(copy))}
    assert results["copy of A"].verdict == "does not apply"
    assert results["ignored bias"].verdict == "accepted"


def test_a_reference_that_fails_for_zeros_is_not_refused() -> None:
    def scaled(a: Any, bias: Any) -> Any:
        if not a.any():
            raise WorkloadError("reference(a) raised LinAlgError")
        return product(a, bias)

    results = {r.name: r for r in examine(World(scaled))}
    assert results.pop("ignored A").verdict == "does not apply"
    assert {result.verdict for result in results.values()} == {"rejected"}


class Copy(World):
    """One whose result is a copy of A, with kernels that copy one of its inputs."""

    evaluator = (ScriptedEvaluator(),) * 3
    start = "latency 10"

    def hostile_kernels(self) -> Mapping[str, str]:
        return {"copies A": "latency 5", "copies bias": "fail check wrong_result"}


def test_a_kernel_that_copies_is_right_for_a_task_that_is_a_copy() -> None:
    results = {r.name: r for r in examine(Copy(lambda a, bias: a))}
    assert results["kernel: copies A"].verdict == "does not apply"
    assert results["kernel: copies bias"].verdict == "rejected"
    assert {r.name: r for r in examine(Copy())}["kernel: copies A"].verdict == "accepted"


def test_a_type_that_never_saturates() -> None:
    world = World(lambda a, bias: a // 2 + bias // 4, high=60)
    results = {r.name: r for r in examine(world)}
    assert results["skipped saturation"].verdict == "does not apply"


def test_a_reference_that_is_not_deterministic() -> None:
    counter = itertools.count()
    world = World(lambda a, bias: product(a, bias + next(counter) % 7))
    with pytest.raises(WorkloadError, match=r"two different results for C.*deterministic"):
        examine(world)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_reference_that_gives_no_number(bad: float) -> None:
    world = World(lambda a, bias: np.where(a > 2, np.float32(bad), a), dtype="float32", high=1)
    with pytest.raises(WorkloadError, match="NaN or infinity in C for uniform inputs"):
        examine(world)


BORDER = 2


class InPlace:
    """A task that changes the interior of A in place, and leaves a border of A as it is.

    With `whole` set to False, its check compares neither the last row nor the last column of the
    interior.
    """

    def __init__(self, whole: bool = True) -> None:
        self.compared = np.s_[: ROWS - BORDER - (not whole), : COLUMNS - BORDER - (not whole)]
        self.workload = Workload(
            "in place", "weak", (Argument("A", (ROWS, COLUMNS), "float32", "inout"),), 1
        )

    def check_cases(self) -> Sequence[InPlaceCase]:
        return [InPlaceCase(self, seed) for seed in range(4)]

    def hostile_kernels(self) -> Mapping[str, str]:
        return {}


class InPlaceCase:
    distribution = "uniform"
    careless: Mapping[str, float] = {}

    def __init__(self, task: InPlace, seed: int) -> None:
        self._compared = task.compared
        self.arguments = task.workload.arguments
        drawn = np.random.default_rng(seed).standard_normal((ROWS, COLUMNS))
        self.given = {"A": drawn.astype("float32").tobytes()}

    @property
    def expected(self) -> Mapping[str, bytes]:
        return self.reference(self.given)

    def reference(self, given: Mapping[str, bytes]) -> Mapping[str, bytes]:
        array = _in_place(given)
        array[BORDER:-BORDER, BORDER:-BORDER] *= -2
        return {"A": array.tobytes()}

    def mismatch(self, outputs: Mapping[str, bytes]) -> str | None:
        got, right = (_in_place(o)[self._compared] for o in (outputs, self.expected))
        return None if np.array_equal(got, right) else "differs"


def _in_place(arrays: Mapping[str, bytes]) -> np.ndarray:
    return np.frombuffer(arrays["A"], "float32").reshape(ROWS, COLUMNS).copy()


TAILS = {"skipped tail", "skipped element"}


def test_a_border_that_no_kernel_writes_is_not_a_tail() -> None:
    """A kernel that skips only a part of this border is correct."""
    found = {r.name: r.verdict for r in examine(InPlace()) if r.name in TAILS}
    assert found == dict.fromkeys(TAILS, "rejected")


def test_the_last_elements_that_a_kernel_changes_must_be_compared() -> None:
    found = {r.name: r.verdict for r in examine(InPlace(whole=False)) if r.name in TAILS}
    assert found == dict.fromkeys(TAILS, "accepted")


def test_the_end_of_an_output_must_be_written_whatever_it_contains_before_the_call() -> None:
    def ends_with_fives(a: Any, bias: Any) -> Any:
        return np.where(np.arange(ROWS)[:, None] == ROWS - 1, 5, product(a, bias)).astype(np.int8)

    assert accepted(World(ends_with_fives, poison=5)) >= TAILS


def test_a_task_that_does_not_open_its_check() -> None:
    class Closed:
        workload = World().workload

    assert examine(Closed()) == []  # type: ignore[arg-type]


def test_results_travel_as_json() -> None:
    from tilewright.core.codec import from_json, to_json

    results = examine(World())
    assert list(from_json(to_json(results))) == results
    assert isinstance(results[0], AttackResult)


def test_shortcuts_are_told_apart_with_a_margin_or_are_said_not_to_be() -> None:
    seen = {"bf16 inputs": 84.0, "fp16 inputs": 1.5, "skipped terms": 3.0}
    results = {r.name: r for r in examine(World(careless=seen))}
    assert results["bf16 inputs"].verdict == "rejected"
    assert "84 times what is allowed on uniform inputs" in results["bf16 inputs"].log
    assert results["fp16 inputs"].verdict == "indistinguishable"
    assert "no precision class" in results["fp16 inputs"].remedy
    assert results["skipped terms"].verdict == "rejected"
    assert results["one-pass variance"].verdict == "does not apply"
    assert refusal("weak:task", list(results.values())) is None


def test_a_task_that_accepts_skipped_terms_is_refused() -> None:
    text = refusal("weak:task", examine(World(careless={"skipped terms": 0.4})))
    assert text is not None
    assert "'skipped terms', that leaves out the last sixteenth of every sum" in text
    assert "remove the tolerance" in text


def test_what_is_left_out_is_listed_with_its_reason() -> None:
    results = examine(World(omitted={"near overflow": "float32 itself overflows in C"}))
    (found,) = (r for r in results if r.name == "inputs: near overflow")
    assert found.verdict == "does not apply"
    assert found.log == "left out: float32 itself overflows in C"


def test_a_distribution_that_is_not_compared_is_an_attack_of_its_own() -> None:
    assert "wrong on uniform" in accepted(World(absolute=1000))
    assert "wrong on uniform" not in accepted(World())


class Unbuildable(World):
    """One whose wrong kernel the compiler refuses."""

    evaluator = (ScriptedEvaluator(),) * 3
    start = "latency 10"

    def hostile_kernels(self) -> Mapping[str, str]:
        return {"writes zeros": "fail build compile_error"}


def test_wrong_kernels_that_are_not_built_show_nothing() -> None:
    with pytest.raises(InternalError, match="own wrong kernel 'writes zeros' could not be built"):
        examine(Unbuildable())


class Broken(Unbuildable):
    """One whose starting kernel does not build either: a wrong kernel may contain it."""

    start = "fail build compile_error"


def test_a_starting_kernel_that_does_not_build_is_the_users_affair() -> None:
    with pytest.raises(WorkloadError, match=r"starting kernel of .* does not build"):
        examine(Broken())


class TooSlow(Unbuildable):
    """One whose wrong kernel is stopped before anything of it is compared."""

    def hostile_kernels(self) -> Mapping[str, str]:
        return {"writes zeros": "fail check timeout"}


def test_wrong_kernels_that_are_not_compared_are_no_refusal() -> None:
    (result,) = (found for found in examine(TooSlow()) if found.name == "kernel: writes zeros")
    assert result.verdict == "does not apply"
    assert result.log.startswith("does not test the check: it was not compared (timeout")


class FirstComparison(ScriptedEvaluator):
    """Its first comparison rejects every kernel but "correct at first" and "slow at first", for
    which the time is not enough; it records all others."""

    def __init__(self) -> None:
        self.compared_further: list[bytes] = []

    def check_first(self, artifact: Artifact) -> Verdict | Failed:
        if artifact.binary == b"correct at first":
            return Verdict((Check(1, "uniform"),))
        if artifact.binary == b"slow at first":
            return Failed("check", "timeout", "took too long")
        return Failed("check", "wrong_result", "differs")

    def check(self, artifact: Artifact, passed: Verdict = NOTHING_CHECKED) -> Verdict | Failed:
        self.compared_further.append(artifact.binary)
        return Failed("check", "wrong_result", "differs later")


class Compared(World):
    """One with a wrong kernel that the first comparison rejects, and two that it does not."""

    def hostile_kernels(self) -> Mapping[str, str]:
        return {
            "writes zeros": "wrong",
            "is wrong later": "correct at first",
            "is slow": "slow at first",
        }


def test_wrong_kernels_that_one_comparison_rejects_are_not_compared_further() -> None:
    world, evaluator = Compared(), FirstComparison()
    world.evaluator = (evaluator,) * 3
    found = {result.name: (result.verdict, result.log) for result in examine(world)}
    assert found["kernel: writes zeros"] == ("rejected", "wrong result: differs")
    assert found["kernel: is wrong later"] == ("rejected", "wrong result: differs later")
    assert found["kernel: is slow"] == ("rejected", "wrong result: differs later")
    assert evaluator.compared_further == [b"correct at first", b"slow at first"]


class EndedWorker:
    """A worker process that has printed two lines and ended."""

    exit_text = "ended with status 7"

    def send(self, message: object) -> None:
        pass

    def receive(self) -> object:
        raise EOFError

    def kill(self) -> str:
        return "starting\n\nno licence for this machine.\n"


@pytest.mark.parametrize(
    ("task", "kind"), [("/home/me/mine", WorkloadError), ("gemmini:gemm-1x1x1", InternalError)]
)
def test_a_process_that_ends_is_reported_with_its_last_output(
    monkeypatch: pytest.MonkeyPatch, task: str, kind: type[Exception]
) -> None:
    monkeypatch.setattr(session, "start_worker", lambda task, settings: EndedWorker())
    monkeypatch.setattr(session, "readable", lambda workers, timeout_s: workers)
    with pytest.raises(kind, match=r"status 7 \(its last output: no licence for this machine\)"):
        session.preflight(task, {})


def test_what_holds_of_all_comparisons_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The estimate is close in all comparisons but the last, so no comparison is left out."""
    estimate, estimated, close = guesses._estimate, [], iter((True, True, True, False))

    def counted(array: np.ndarray) -> np.ndarray:
        estimated.append(array)
        return estimate(array)

    monkeypatch.setattr(guesses, "_estimate", counted)
    monkeypatch.setattr(guesses, "_is_close", lambda *_: next(close))
    examine(World(absolute=1e9))
    assert len(estimated) == 4 + 3
