"""Workload records: shapes, accesses, and the paper's thirty."""

import itertools
from dataclasses import replace

import pytest

from tilewright.core.errors import UnknownNameError, WorkloadError
from tilewright.tuner.benchmark_set import IDENTIFIERS, benchmark_workload
from tilewright.tuner.workload import Access, Loop, LoopKind, TensorWorkload, conv2d, matmul


def test_the_set_has_thirty_workloads() -> None:
    assert len(IDENTIFIERS) == 30
    assert [benchmark_workload(name).name for name in IDENTIFIERS] == list(IDENTIFIERS)


def test_shapes_of_some_workloads() -> None:
    assert benchmark_workload("M4").extents == (512, 1024, 4096)
    # 7x7, stride 2, 224 -> 112
    assert benchmark_workload("R0").extents == (1, 64, 112, 112, 3, 7, 7)
    assert benchmark_workload("R2").extents == (1, 64, 56, 56, 64, 3, 3)
    assert benchmark_workload("R4").extents == (1, 128, 28, 28, 256, 1, 1)
    assert benchmark_workload("Y0").flops == 2 * 32 * 544 * 544 * 3 * 9
    assert benchmark_workload("R1").padded == frozenset()
    assert benchmark_workload("R2").padded == {"data"}


def test_an_unknown_identifier_gets_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'R3'"):
        benchmark_workload("R13")


def test_convolution_accesses_stay_inside_the_padded_input() -> None:
    workload = conv2d(1, 2, 5, 6, 3, kernel=3, stride=2, padding=1)
    (data,) = [a for a in workload.inputs if a.buffer == "data"]
    limits = (1, 2, 5 + 2, 6 + 2)
    highest = [sum(c * (workload.extents[loop] - 1) for loop, c in terms) for terms in data.dims]
    assert all(high < limit for high, limit in zip(highest, limits, strict=True))
    # Every row of the padded input that a 3x3 window with stride 2 can start at is reached.
    rows = {2 * y + r for y, r in itertools.product(range(workload.extents[2]), range(3))}
    assert rows == set(range(7))


@pytest.mark.parametrize("make", [lambda: matmul(0, 1, 1), lambda: conv2d(1, 1, 2, 2, 1, 5)])
def test_impossible_shapes_are_rejected(make: object) -> None:
    assert callable(make)
    with pytest.raises(WorkloadError):
        make()


def test_equal_computations_have_equal_signatures_whatever_their_names() -> None:
    assert matmul(512, 64, 1024).signature == benchmark_workload("M0").signature
    assert matmul(512, 64, 1024).signature == "ac,cb->ab 512x64x1024"
    assert matmul(64, 512, 1024).signature != benchmark_workload("M0").signature
    product = matmul(8, 4, 2)
    turned = replace(product, inputs=product.inputs[::-1])
    assert turned.signature == product.signature
    batched = TensorWorkload(
        "batch of one",
        (Loop("b", 1, LoopKind.SPATIAL), *product.loops),
        tuple(
            Access(a.buffer, (((0, 1),), *(((n + 1, c),) for ((n, c),) in a.dims)))
            for a in product.inputs
        ),
        Access("C", (((0, 1),), ((1, 1),), ((2, 1),))),
    )
    assert batched.signature == product.signature


def test_a_family_is_a_computation_of_any_size() -> None:
    families = {name: benchmark_workload(name).family for name in IDENTIFIERS}
    assert {families[name] for name in ("R0", "R2", "R5", "Y9")} == {"adef,d(b+e)(c+f)->abc"}
    assert {families[name] for name in ("R1", "R4", "R12", "Y3")} == {"ad,dbc->abc"}
    assert {families[name] for name in ("M0", "M5")} == {"ac,cb->ab"}
    assert len(set(families.values())) == 3
    batched = conv2d(2, 64, 8, 8, 64, 3)
    assert batched.family == "ae(c+f)(d+g),befg->abcd"


def test_a_resized_workload_is_the_same_computation_with_other_sizes() -> None:
    assert matmul(2, 3, 4, "x").resized((5, 6, 7)) == matmul(5, 6, 7, "x")


def test_malformed_records_are_rejected() -> None:
    i, k = Loop("i", 4, LoopKind.SPATIAL), Loop("k", 4, LoopKind.REDUCTION)
    out = Access("C", (((0, 1),),))
    with pytest.raises(WorkloadError, match="must precede reduction loops"):
        TensorWorkload("x", (k, i), (), out)
    with pytest.raises(WorkloadError, match="no spatial loop"):
        TensorWorkload("x", (k,), (), out)
    with pytest.raises(WorkloadError, match="indexed by a loop"):
        TensorWorkload("x", (i, k), (Access("A", (((2, 1),),)),), out)
