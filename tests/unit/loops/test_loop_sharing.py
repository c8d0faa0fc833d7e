"""Sharing a loop among threads: where it is right, and that it stays right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_loop_rewrites import PRODUCT, SCORES, SOFTMAX, outputs

from tilewright.core.errors import InputError
from tilewright.core.plugins import load_proposer
from tilewright.core.records import (
    Brief,
    Candidate,
    CommandEffect,
    History,
    LatencyKind,
    Measured,
    MenuOption,
    Plan,
    TargetBrief,
    Trial,
    Verdict,
    Workload,
)
from tilewright.parts.languages import C
from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.analysis.independence import require_independent
from tilewright.proposers.loops.analysis.sharing import regions
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.ir import (
    Assign,
    Binary,
    Declare,
    For,
    Number,
    Var,
    loops,
    with_loop,
)
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.parsing.syntax import UnsupportedError
from tilewright.proposers.loops.planning.by_hand import applicable, carried_out
from tilewright.proposers.loops.planning.full_sequences import Whole
from tilewright.proposers.loops.planning.steps import Step
from tilewright.proposers.loops.rewrites.parallelise import share
from tilewright.proposers.loops.rewrites.unroll_and_jam import jam
from tilewright.proposers.loops.rewrites.vectorise import vectorise

GOLDEN = Path(__file__).parents[2] / "golden" / "loops"
PRAGMA = "#pragma omp parallel for num_threads(2) schedule(static)"
ROWS = "for (int i = 0; i < 8; i++)"
STEP = "for (int j = 0; j < 4; j++)"


def test_golden(update_golden: bool) -> None:
    kernel = share(vectorise(parse(SCORES), 5, 4), 0, 2)
    path = GOLDEN / "scores.c"
    if update_golden:
        path.write_text(emit(kernel))
    assert emit(kernel) == path.read_text()
    assert parse(emit(kernel)) == kernel


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (f"{ROWS} Y[i] = Y[i + 1];", "same elements of Y"),
        (f"{ROWS} {STEP} Y[i + j] = X[i][j];", "same elements of Y"),
        (f"{ROWS} Y[0] = X[i][0];", "same elements of Y"),
        (f"{ROWS} {{ int32_t t[1]; t[0] = i; Y[i - t[0]] = X[i][0]; }}", "same elements of Y"),
        (f"float s = 0.0f; {ROWS} s += X[i][0]; Y[0] = s;", "same variable s"),
        (f"float s = 0.0f; {ROWS} {{ Y[i] = s; s = X[i][0]; }}", "same variable s"),
        (f"float s; {ROWS} {{ s = X[i][0]; Y[i] = s; }} Y[8] = s;", "same variable s"),
        (f"float s; {ROWS} {{ {STEP} s = X[i][j]; Y[i] = s; }} Y[8] = s;", "same variable s"),
        (f"float t[4]; {ROWS} {{ for (int j = 1; j < 4; j++) t[j] = X[i][j]; "
         f"{STEP} Y[i] = t[j]; }}", "same elements of t"),
        (f"float t[4]; {ROWS} {{ {STEP} t[j] = X[i][j]; {STEP} Y[i] = t[j]; }} Y[8] = t[0];",
         "same elements of t"),
        (f"float t[4]; {ROWS} {STEP} {{ t[j] = X[i][j]; Y[i] = t[3]; }}", "same elements of t"),
        (f"float t[9]; {ROWS} {STEP} {{ int n = 0; t[j + n] = X[i][j]; n = 1; Y[i] = t[j + n]; }}",
         "same elements of t"),
        ("for (int i = 0; i < 1; i++) Y[i] = X[i][0];", "too few"),
        (f"{ROWS} {{ float t[20000]; t[0] = X[i][0]; Y[i] = t[0]; }}", "stack"),
    ],
)  # fmt: skip
def test_what_threads_would_change_is_not_shared(body: str, why: str) -> None:
    kernel = parse(f"void kernel(const float X[9][4], float Y[12]) {{ {body} }}")
    with pytest.raises(NotApplicableError, match=why):
        share(kernel, 0, 2)


def test_what_a_loop_without_iterations_would_write_is_not_written() -> None:
    kernel = parse(
        "void kernel(const float X[9][4], float Y[12]) { float s; for (int i = 0; i < 8; i++) { "
        "for (int j = 0; j < 1; j++) s = X[i][j]; Y[i] = s; } }"
    )
    (loop,) = kernel.body
    assert isinstance(loop, For)
    declared, *rest = loop.body
    kernel = replace(kernel, body=(declared, replace(loop, body=tuple(rest))))
    share(kernel, 0, 2)
    with pytest.raises(NotApplicableError, match="same variable s"):
        share(with_loop(kernel, 1, (replace(loops(kernel)[1], last=0),)), 0, 2)


@pytest.mark.parametrize(
    "body",
    [
        f"float s; {ROWS} {{ s = X[i][0]; Y[i] = s; }}",
        f"float s = 1.0f; {ROWS} {{ s = X[i][0]; Y[i] = s; }}",
        f"float t[4]; {ROWS} {{ {STEP} t[j] = X[i][j]; {STEP} Y[i] = t[j]; }}",
        f"float t[4]; {ROWS} {STEP} {{ t[j] = X[i][j]; Y[i] = t[j]; }}",
        f"float t[4]; {ROWS} {{ for (int j = 0; j < 4; j += 2) {{ t[j] = X[i][j]; "
        f"t[j + 1] = 2.0f; }} {STEP} Y[i] = t[3 - j]; }}",
        f"float t[9]; {ROWS} t[i] = X[i][0]; for (int k = 0; k < 8; k++) Y[k] = t[7 - k];",
    ],
)
def test_what_an_iteration_writes_first_is_its_own(body: str) -> None:
    kernel = parse(f"void kernel(const float X[9][4], float Y[8]) {{ {body} }}")
    shared = share(kernel, 0, 2)
    assert outputs(shared, 1)["Y"].tolist() == outputs(kernel, 1)["Y"].tolist()
    assert parse(emit(shared)) == shared


def test_a_loop_variable_that_is_assigned_has_no_known_range() -> None:
    rows = (
        "void kernel(float Y[12]) {{ for (int i = 0; i < 4; i++) for (int j = 0; j < 2; j++) {} }}"
    )
    within = parse(rows.format("Y[2 * i + j] = 1.0f;"))
    require_independent(loops(within)[0], within)
    tripled = Assign(Var("j"), Binary("*", Var("j"), Number("3")))
    outer, inner = loops(within)
    inner = replace(inner, body=(tripled, *inner.body))
    beyond = replace(within, body=(replace(outer, body=(inner,)),))
    with pytest.raises(NotApplicableError, match="same elements of Y"):
        require_independent(loops(beyond)[0], beyond)


VECTORS = "typedef float vf __attribute__((vector_size(16), aligned(4), may_alias));\n"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        # The next row begins with what the one before wrote too much.
        (f"{ROWS} for (int j = 0; j < 8; j += 4) *(vf *)&Y[i][j] = *(const vf *)&X[i][j];",
         "beyond the ends of rows of Y"),
        (f"int j = 4; {ROWS} *(vf *)&Y[i][j] = *(const vf *)&X[i][0];", "beyond the ends"),
        (f"{ROWS} Y[i][0] = v_sum(*(const vf *)&Y[i][4]);", "beyond the ends"),
        # One vector of four is written, and another one read.
        (f"vf t[4]; {ROWS} {{ *(vf *)&t[0] = *(const vf *)&X[i][0]; *(vf *)&Y[i][0] = t[1]; }}",
         "same elements of t"),
        (f"{ROWS} {{ vf t[5000]; t[0] = *(const vf *)&X[i][0]; *(vf *)&Y[i][0] = t[0]; }}",
         "stack"),
    ],
)  # fmt: skip
def test_vectors_may_be_shared_by_iterations(body: str, why: str) -> None:
    kernel = parse(f"{VECTORS}void kernel(const float X[9][6], float Y[9][6]) {{ {body} }}")
    with pytest.raises(NotApplicableError, match=why):
        share(kernel, 0, 2)


@pytest.mark.parametrize(
    "body",
    [
        f"{ROWS} for (int j = 0; j < 8; j += 4) *(vf *)&Y[i][j] = *(const vf *)&X[i][j];",
        f"{ROWS} for (int j = 4; j < 8; j += 4) *(vf *)&Y[i][j - 4] = *(const vf *)&X[i][8 - j];",
        f"for (int j = 0; j < 2; j++) {ROWS} *(vf *)&Y[i][4 * j] = *(const vf *)&X[i][4];",
    ],
)
def test_vectors_within_rows_are_shared(body: str) -> None:
    kernel = parse(f"{VECTORS}void kernel(const float X[9][8], float Y[9][8]) {{ {body} }}")
    number = next(n for n, loop in enumerate(loops(kernel)) if loop.variable == "i")
    shared = share(kernel, number, 2)
    np.testing.assert_equal(outputs(shared, 1)["Y"], outputs(kernel, 1)["Y"])


def test_what_moves_into_a_loop_stays_declared_in_copies_of_it() -> None:
    """The iteration that is left over when loops are jammed has the same declarations."""
    body = f"{{ float s; {STEP} {{ s = X[i][j]; Y[i][j] = s; }} }}"
    kernel = parse(
        f"void kernel(const float X[9][4], float Y[9][4]) {{ for (int i = 0; i < 9; i++) {body} }}"
    )
    outer, inner = loops(kernel)
    declared, *others = inner.body  # the variable is declared outside of the inner loop again
    assert isinstance(declared, Declare)
    assert declared.value is not None
    first = Assign(Var(declared.name), declared.value)
    inner = replace(inner, body=(first, *others))
    moved = (Declare(declared.type, declared.name), inner)
    kernel = replace(kernel, body=(replace(outer, body=moved),))
    shared = share(jam(kernel, 0, 2), 1, 2)
    jammed, rest = shared.body
    assert isinstance(jammed, For)
    assert isinstance(rest, For)
    assert [type(s) for s in jammed.body] == [For]
    assert [type(s) for s in rest.body] == [Declare, For]


def test_commands_on_registers_and_loops_in_shared_ones_are_not_shared() -> None:
    put = CommandEffect("put", ("register_read", "dram_write"), "store")
    source = "void kernel(float Y[8]) { for (int i = 0; i < 8; i++) put(1, &Y[i]); }"
    with pytest.raises(NotApplicableError, match="registers"):
        share(parse(source, [put]), 0, 2)
    outer = share(parse(PRODUCT), 0, 2)
    with pytest.raises(NotApplicableError, match="shared"):
        share(outer, 1, 2)
    inner = share(parse(PRODUCT), 1, 2)
    with pytest.raises(NotApplicableError, match="shared"):
        share(inner, 0, 2)


def test_steps_on_shared_loops_keep_one_region() -> None:
    """What is left over runs on one thread; the order of the nest is that which is shared."""
    shared = share(parse(PRODUCT), 0, 2)
    jammed = Step("jam", 0, 2).apply(shared)
    assert emit(jammed).count("#pragma") == 1
    assert [loop.threads for loop in loops(jammed) if loop.variable == "i"] == [2, 1]
    with pytest.raises(NotApplicableError, match="too few"):
        Step("jam", 0, 4).apply(shared)  # one iteration would be left for two threads
    square = parse(
        "void kernel(const float X[8], float Y[8][8]) "
        "{ for (int i = 0; i < 8; i++) for (int j = 0; j < 8; j++) Y[i][j] = X[i]; }"
    )
    for technique in ("exchange", "block"):
        with pytest.raises(NotApplicableError, match="shared"):
            Step(technique, 0, 2).apply(share(square, 0, 2))
    outside = Step("exchange", 0).apply(share(square, 1, 2))
    assert [loop.threads for loop in loops(outside)] == [2, 1]
    blocked = share(Step("block", 0, 2).apply(square), 0, 2)
    assert [loop.threads for loop in loops(blocked)] == [2, 1, 1]


@pytest.mark.parametrize(
    "pragma",
    [
        PRAGMA,
        "#pragma omp  parallel for schedule(static) num_threads( 2 )",
        "#pragma omp parallel for num_threads(2)",
    ],
)
def test_a_kernel_that_is_shared_already_is_read_and_stays_so(pragma: str) -> None:
    source = f"void kernel(float Y[8]) {{\n{pragma}\n/* rows */ {ROWS} Y[i] = 1.0f;\n}}"
    kernel = parse(source)
    assert loops(kernel)[0].threads == 2
    assert PRAGMA in emit(Step("vectorise", 0, 4).apply(kernel))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (f"#pragma omp parallel for\n{ROWS} Y[i] = 1.0f;", "the only supported pragma"),
        (f"#pragma omp parallel for num_threads(2) private(s)\n{ROWS} Y[i] = 1.0f;", "the only"),
        (f"{PRAGMA}\nY[0] = 1.0f;", "the only supported pragma"),
        (f"{ROWS} Y[i] = 1.0f;\n{PRAGMA}\n", "no loop follows"),
        (f"{PRAGMA}\n{ROWS} Y[0] = i;", "same elements of Y"),
    ],
)
def test_other_pragmas_and_races_are_refused_with_their_line(body: str, says: str) -> None:
    source = f"void kernel(float Y[8]) {{\n{body}\n}}"
    with pytest.raises(UnsupportedError, match=says) as error:
        parse(source)
    assert source.splitlines()[error.value.line - 1].startswith("#pragma")


WORKLOAD = Workload("softmax-3x11", "machine", (), 33)


def target(threads: int, *techniques: str) -> TargetBrief:
    menu = tuple(MenuOption(t, f"Do {t}.", technique=t) for t in techniques)
    limits = {"vector_bytes": 16, "threads": threads}
    return TargetBrief("machine", "", "", menu, (), limits, {}, C, LatencyKind("measured", "ns"))


def plans(
    source: str, brief: TargetBrief, history: History | None = None, seed: int = 1
) -> list[Plan]:
    """Of the built-in proposer for a kernel that it made itself."""
    outcome = Measured(1000.0, "ns", "measured", 0.4, Verdict(()))
    trial = Trial(1, 1, Candidate(source, parent_id="0"), outcome)
    asked = Brief(WORKLOAD, brief, brief.menu, iteration=1, iterations=5)
    return load_proposer("builtin").plan(asked, trial, history or History([trial]), 4, seed)


def test_a_plan_vectorises_all_it_can_whatever_options_the_plan_was_not_offered() -> None:
    source = (
        "void kernel(const float X[8], float Y[8]) { for (int i = 0; i < 8; i++) Y[i] = X[i]; }"
    )
    brief = target(1, "accumulators", "vectorise")
    trial = Trial(0, 0, Candidate(source), Measured(9.0, "ns", "measured", 0.4, Verdict(())))
    for seed in range(8):
        workload = Workload("copy", "machine", (), 8)
        asked = Brief(workload, brief, brief.menu, 1, 5, dropout=1.0, seed=seed)
        found = load_proposer("builtin").plan(asked, trial, History([trial]), 4, seed)
        assert any(str(plan.parameters["steps"]).startswith("vectorise 0") for plan in found)


def test_complete_sequences_are_planned_as_they_are() -> None:
    source = (
        "void kernel(const float X[8][64], const float Y[64][64], float Z[8][64]) { "
        "for (int i = 0; i < 8; i++) for (int j = 0; j < 64; j++) { float s = 0.0f; "
        "for (int k = 0; k < 64; k++) s += X[i][k] * Y[k][j]; Z[i][j] = s; } }"
    )
    brief = target(1, "vectorise", "jam", "accumulators", "exchange", "block")
    whole = Whole(4, 16, frozenset({"vectorise", "jam"})).sequences(parse(source))
    wanted = {"; ".join(str(step) for step, _ in steps) for steps, _ in whole}
    assert len(wanted) > 1
    for seed in range(4):
        found = plans(source, brief, seed=seed)
        assert wanted <= {str(plan.parameters["steps"]) for plan in found}


def test_sharing_is_for_targets_that_offer_it() -> None:
    offered = target(2, "share", "vectorise")
    assert {str(step) for step, _ in applicable(SOFTMAX, offered, WORKLOAD)} >= {"share 0 2"}
    assert PRAGMA in carried_out(SOFTMAX, offered, WORKLOAD, "share 0 2")[0]
    for brief in (target(2, "vectorise"), target(1, "share", "vectorise")):
        assert not [s for s, _ in applicable(SOFTMAX, brief, WORKLOAD) if s.technique == "share"]
        with pytest.raises(InputError, match="shared among 1"):
            carried_out(SOFTMAX, brief, WORKLOAD, "share 0 2")
        assert not [p for p in plans(SOFTMAX, brief) if "share" in str(p.parameters["steps"])]


def test_a_kernel_is_planned_shared_as_it_is_once() -> None:
    brief = target(2, "share", "vectorise", "reciprocal")
    source = emit(vectorise(parse(SOFTMAX), 2, 4))
    found = [p.parameters["steps"] for p in plans(source, brief)]
    assert found[0] == "share 0 2"
    others = [p.parameters["steps"] for seed in range(12) for p in plans(source, brief, seed=seed)]
    assert any("share" not in str(steps) for steps in others)
    outcome = Measured(900.0, "ns", "measured", 0.4, Verdict(()))
    done = Trial(2, 1, Candidate(emit(share(parse(source), 0, 2)), "1"), outcome)
    again = plans(source, brief, History([done]))
    assert "share 0 2" not in [p.parameters["steps"] for p in again]


def test_threads_are_woken_once_for_each_outermost_loop() -> None:
    brief = target(2, "share", "vectorise")
    image = f"void kernel(float Y[1][8]) {{ for (int n = 0; n < 1; n++) {ROWS} Y[n][i] = 1.0f; }}"
    for source, loop in ((PRODUCT, 0), (image, 1)):
        kernel = parse(source)
        shares = [
            step
            for seed in range(5)
            for plan in plans(source, brief, seed=seed)
            for step in str(plan.parameters["steps"]).split("; ")
            if step.startswith("share")
        ]
        assert set(shares) == {f"share {loop} 2"}
        assert regions(kernel, loop) == 1
