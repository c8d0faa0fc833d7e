"""The TinyMPC workloads: names, the oracle, its error bounds, and the inputs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tilewright.core.errors import WorkloadError
from tilewright.parts.case import Case
from tilewright.parts.cases import Cases
from tilewright.targets.gemmini import create_fp32_target, create_target
from tilewright.targets.gemmini.tinympc import Direction, TinyMpc, parse_tinympc
from tilewright.targets.gemmini.tinympc_problem import TinyMpcProblem

FP32 = create_fp32_target().instance
SIZES = st.tuples(st.integers(1, 14), st.integers(1, 6), st.integers(2, 12))


@pytest.mark.parametrize("name", ["tinympc-forward", "tinympc-backward", "tinympc-forward-3x2x9"])
def test_names_open(name: str) -> None:
    task = create_fp32_target().open(name, {})
    assert task.workload.name == f"gemmini-fp32-4x4:{name}"
    assert list(task.baselines) == ["naive", "library", "tuned", "fsm"]


def test_usual_sizes_need_no_numbers() -> None:
    assert parse_tinympc("tinympc-backward-12x4x10", FP32).name == "tinympc-backward"
    assert parse_tinympc("tinympc-forward", FP32) == TinyMpc("forward", 12, 4, 5)
    assert TinyMpc("forward", 12, 4, 5).operations == 4 * (48 + 144 + 48)
    assert TinyMpc("backward", 12, 4, 10).operations == 9 * (48 + 16 + 144 + 48)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("tinympc-sideways", "PASS forward or backward"),
        ("tinympc-forward-12x4", "malformed"),
        ("tinympc-forward-0x4x5", "must be 1 or more"),
        ("tinympc-forward-12x4x1", "horizon must be 2 or more"),
        ("tinympc-forward-12x4x65", "64 or less"),
        ("tinympc-forward-9000x4x5", "choose smaller sizes"),
    ],
)
def test_impossible_names_are_refused(spec: str, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        parse_tinympc(spec, FP32)


def test_an_integer_configuration_names_the_right_one() -> None:
    with pytest.raises(WorkloadError, match="Use gemmini-fp32-4x4:tinympc-forward"):
        create_target().open("tinympc-forward", {})


def case(mpc: TinyMpc, index: int, seed: int = 3) -> Case:
    return Cases(mpc.workload(FP32), TinyMpcProblem(mpc), seed)[index]


def in_float32(mpc: TinyMpc, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The definition, step by step in float32."""
    given = {name: array.copy() for name, array in given.items()}
    if mpc.direction == "forward":
        x, u = given["x"], np.empty((mpc.steps, mpc.inputs), np.float32)
        for i in range(mpc.steps):
            u[i] = -given["Kinf"] @ x[i] - given["d"][i]
            x[i + 1] = given["Adyn"] @ x[i] + given["Bdyn"] @ u[i]
        return {"x": x, "u": u}
    p, d = given["p"], np.empty((mpc.steps, mpc.inputs), np.float32)
    for i in reversed(range(mpc.steps)):
        d[i] = given["Quu_inv"] @ (given["BdynT"] @ p[i + 1] + given["r"][i])
        p[i] = given["q"][i] + given["AmBKt"] @ p[i + 1] - given["KinfT"] @ given["r"][i]
    return {"p": p, "d": d}


def magnitudes(mpc: TinyMpc, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The definition with every term's absolute value: what rounding errors are relative to."""
    negated = {"Kinf", "d"} if mpc.direction == "forward" else {"KinfT"}
    parts = {
        name: (-np.abs(array) if name in negated else np.abs(array)).astype(np.float64)
        for name, array in given.items()
    }
    return in_float32(mpc, parts)


@settings(max_examples=40)
@given(st.sampled_from(["forward", "backward"]), SIZES, st.integers(0, 7), st.integers(0, 99))
@example("forward", (14, 6, 8), 5, 29)
def test_float32_is_within_its_bound_and_a_wrong_element_is_not(
    direction: Direction, sizes: tuple[int, int, int], index: int, seed: int
) -> None:
    mpc = TinyMpc(direction, *sizes)
    drawn = case(mpc, index, seed)
    with np.errstate(under="ignore"):
        got = in_float32(mpc, dict(drawn.initial))
    assert all(np.isfinite(a).all() for a in got.values())
    assert drawn.mismatch({n: a.tobytes() for n, a in got.items()}) is None
    with np.errstate(invalid="ignore"):  # outputs begin as NaN
        sums = magnitudes(mpc, dict(drawn.initial))
    for name, values in got.items():
        wrong = values.copy()
        element = wrong.size - 1 if mpc.direction == "forward" else 0
        # One part in a hundred of what is summed up, which cancels to less in some draws.
        wrong.flat[element] += 1e-2 * sums[name].flat[element] + 1e-37
        outputs = {**got, name: wrong}
        assert drawn.mismatch({n: a.tobytes() for n, a in outputs.items()}) is not None


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_signs_terms_and_the_given_end_matter(direction: Direction) -> None:
    """Every input takes part in the result, in every distribution but where it vanishes."""
    mpc = TinyMpc(direction, 12, 4, 5)
    for index in (0, 1):
        drawn = case(mpc, index)
        for name in drawn.initial:
            changed = dict(drawn.initial) | {name: -drawn.initial[name]}
            if name in ("u",) or (name == "d" and direction == "backward"):
                continue
            outputs = in_float32(mpc, changed)
            assert drawn.mismatch({n: a.tobytes() for n, a in outputs.items()}) is not None, name


def test_distributions_reach_what_they_are_for() -> None:
    mpc = TinyMpc("forward", 12, 4, 5)
    stable, large, subnormal, sparse = (case(mpc, i) for i in range(4))
    assert [c.check.distribution for c in (stable, large, subnormal, sparse)] == list(
        TinyMpcProblem.distributions[:4]
    )
    assert np.abs(large.expected["x"].exact).max() > 1e5
    tiny = np.finfo(np.float32).tiny
    assert 0 < np.abs(subnormal.expected["x"].exact).max() < tiny * 2
    assert np.mean(sparse.initial["Adyn"] == 0) > 0.5
    assert np.abs(stable.expected["x"].exact[-1]).max() < 10
