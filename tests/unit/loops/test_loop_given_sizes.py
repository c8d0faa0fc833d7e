"""Pointer parameters have the sizes of the arrays that a workload gives to the kernel."""

from __future__ import annotations

import pytest
from test_loop_reading import body_of

from tilewright.core.records import (
    Argument,
    Brief,
    Candidate,
    History,
    Measured,
    Trial,
    Verdict,
    Workload,
)
from tilewright.proposers.builtin import create_proposer
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.parsing.syntax import UnsupportedError
from tilewright.proposers.loops.reading import read_kernel
from tilewright.proposers.random_steps import create_proposer as create_random_proposer
from tilewright.targets.host_c import create_target
from tilewright.tools.rewriting import rewrites, rewritten

TARGET = create_target().brief()
GUARDED = (
    "void kernel(float *X, const float *Y) "
    "{ for (int i = 0; i < 64; i++) if (Y[i] > 3) X[i] = Y[i]; }"
)
READ = "for (int i = 0; i < 64; i++) { X[i] = Y[i] > 3 ? Y[i] : X[i]; }"


def workload(*shapes: tuple[int, ...], dtype: str = "float32") -> Workload:
    given = tuple(Argument(f"a{n}", s, dtype, "inout") for n, s in enumerate(shapes))
    return Workload("w", "host-c", given, 1)


def head_of(source: str, called: Workload) -> str:
    """The parameters as they are printed."""
    text = emit(read_kernel(source, TARGET, called))
    return text[text.index("kernel(") + len("kernel(") :].partition(")")[0]


def test_an_element_under_a_condition_is_read_if_its_array_is_long_enough() -> None:
    with pytest.raises(UnsupportedError, match="its declaration gives no sizes"):
        parse(GUARDED)
    with pytest.raises(UnsupportedError, match="X may be written outside its sizes"):
        parse(GUARDED, given_bytes=(4 * 63, 4 * 64))
    assert body_of(emit(parse(GUARDED, given_bytes=(4 * 64, 4 * 64)))) == READ


def test_shapes_are_counted_in_elements_of_the_parameter() -> None:
    source = "#include <stdint.h>\nvoid kernel(%s *X, const %s *Y) { X[0] = Y[0]; }"
    called = workload((8, 4), (6,))
    assert head_of(source % ("float", "float"), called) == "float X[32], const float Y[6]"
    assert head_of(source % ("double", "char"), called) == "double X[16], const int8_t Y[24]"
    bytes_ = workload((8, 4), (6,), dtype="int8")
    assert head_of(source % ("int8_t", "int"), bytes_) == "int8_t X[32], const int Y[1]"
    halves = workload((8, 4), (6,), dtype="bfloat16")
    assert (
        head_of(source % ("uint16_t", "uint16_t"), halves) == "uint16_t X[32], const uint16_t Y[6]"
    )


def test_pointers_to_rows_and_to_structures_have_sizes() -> None:
    source = (
        "struct p { float x, y; };\n"
        "void kernel(const struct p *restrict P, float (*X)[4]) "
        "{ for (int i = 0; i < 8; i++) X[i][1] = P[i].y; }"
    )
    head = "const float P[restrict 16], float X[32]"
    assert head_of(source, workload((8, 2), (8, 4))) == head


def test_declared_sizes_are_kept() -> None:
    source = "void kernel(float X[2][4], const float *Y) { X[1][2] = Y[0]; }"
    assert head_of(source, workload((4, 4), (5,))) == "float X[2][4], const float Y[5]"


def test_without_shapes_pointers_have_no_sizes() -> None:
    source = "void kernel(float *X, const float *Y /* this is the input */) { X[0] = Y[0]; }"
    assert head_of(source, workload()) == "float *X, const float *Y"
    assert head_of(source, workload((7,))) == "float X[7], const float *Y"


def test_a_copy_beyond_the_end_of_an_array_is_refused() -> None:
    source = "void kernel(float *X, const float *Y) { memcpy(X, Y, 64 * sizeof(float)); }"
    assert head_of(source, workload((64,), (64,))) == "float X[64], const float Y[64]"
    with pytest.raises(UnsupportedError, match="extends beyond the end of Y"):
        read_kernel(source, TARGET, workload((64,), (63,)))


def test_all_readers_of_a_task_use_its_shapes() -> None:
    called = workload((64,), (64,))
    assert create_proposer().left_alone(TARGET, GUARDED, called) == []
    assert create_proposer().left_alone(TARGET, GUARDED, workload())
    step = rewrites(GUARDED, TARGET, called).rewrites[0].step
    assert "X[64]" in rewritten(GUARDED, TARGET, called, step).source


@pytest.mark.parametrize("make", [create_proposer, create_random_proposer])
def test_proposers_use_the_shapes(make) -> None:  # type: ignore[no-untyped-def]
    called = workload((64,), (64,))
    outcome = Measured(1000.0, "ns", "measured", 0.4, Verdict(()))
    parent = Trial(0, 0, Candidate(GUARDED), outcome)
    brief = Brief(called, TARGET, TARGET.menu, iteration=1, iterations=5)
    proposer = make()
    plans = proposer.plan(brief, parent, History([parent]), 2, seed=1)
    assert plans
    assert any(proposer.implement(brief, parent, plan, 1, seed=1) for plan in plans)
