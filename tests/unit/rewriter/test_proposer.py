"""The proposer: general, deterministic, and following what was measured."""

from __future__ import annotations

import itertools
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kernel_model import gemm, gemm_is_right

from tilewright.core.records import (
    Brief,
    Candidate,
    Failed,
    History,
    Measured,
    MenuOption,
    Plan,
    TargetBrief,
    Trial,
    Verdict,
    Workload,
)
from tilewright.core.tasks import open_task
from tilewright.proposers.learning import Evidence, evidence
from tilewright.proposers.rewriter import create_proposer
from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.estimate.cost import estimate
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.planner import passes_through_memory, urgency
from tilewright.proposers.rewriter.planning.steps import Step
from tilewright.proposers.rewriter.proposer import _ancestors
from tilewright.proposers.rewriter.raising.raised import raised
from tilewright.proposers.rewriter.reading import read
from tilewright.targets.gemmini import create_fp32_target

WORKLOAD = Workload("w", "gemmini", (), 1)
RENAMED = {
    "i": "alpha",
    "j": "beta",
    "k": "gamma",
    "jj": "delta",
    "A": "In",
    "B": "Weights",
    "C": "Out",
    "rows": "h",
    "cols": "w",
    "depth": "z",
    "jcols": "part",
}

FOLDERS = Path(__file__).parents[2] / "fixtures" / "foreign_folders"


def brief(target: TargetBrief, menu: tuple[MenuOption, ...] | None = None) -> Brief:
    return Brief(WORKLOAD, target, menu or target.menu, 1, 15)


def trial(source: str, breakdown: dict[str, float] | None = None) -> Trial:
    outcome = Measured(1000.0, "cycles", "simulated", 0.3, Verdict(()), breakdown or {})
    return Trial(0, 0, Candidate(source), outcome)


def renamed(text: str) -> str:
    return re.sub(r"\b[A-Za-z]+\b", lambda m: RENAMED.get(m[0], m[0]), text)


def steps(target: TargetBrief, source: str, seed: int) -> list[str]:
    """The steps of each plan and what they are expected to give, without names."""
    parent = trial(source)
    plans = create_proposer().plan(brief(target), parent, History([parent]), 2, seed)
    return [f"{_nameless(str(p.parameters['steps']))}: {p.expected}" for p in plans]


def _nameless(steps: str) -> str:
    """New loops are named after old ones where the name is free, so names may differ."""
    words = [step.split(" ", 1) for step in steps.split("; ")]
    return "; ".join(w[0] + re.sub(r"[A-Za-z_]\w*", "_", " ".join(w[1:])) for w in words)


@pytest.mark.parametrize("shape", [(128, 128, 128), (40, 100, 72)])
def test_names_do_not_matter(target: TargetBrief, shape: tuple[int, int, int]) -> None:
    source = gemm(*shape)
    assert renamed(source) != source
    assert steps(target, renamed(source), 0) == steps(target, source, 0)


def test_candidates_are_right(target: TargetBrief, machine: Machine) -> None:
    shape = (24, 100, 40)
    parent, proposer = trial(gemm(*shape)), create_proposer()
    seen = set()
    for seed in range(2):
        for plan in proposer.plan(brief(target), parent, History([parent]), 6, seed):
            for candidate in proposer.implement(brief(target), parent, plan, 2, seed):
                seen.add(proposer.normalize(candidate.source, target))
                assert gemm_is_right(lift(candidate.source, machine), *shape), plan.text
    assert len(seen) > 10


def test_comments_layout_and_loop_names_do_not_make_a_new_kernel(target: TargetBrief) -> None:
    proposer, source = create_proposer(), gemm(64, 64, 64)
    parent = trial(source)
    proposer.plan(brief(target), parent, History([parent]), 1, 0)
    other = re.sub(r"//.*", "", source).replace("  ", "    ")
    other = re.sub(r"\b(jj|i|k)\b", lambda m: m[0] + "x", other)
    assert proposer.normalize(other, target) == proposer.normalize(source, target)
    moved = source.replace("ACC(0)", "ACC(64)")
    assert proposer.normalize(moved, target) != proposer.normalize(source, target)


def test_the_same_seed_gives_the_same_plans_in_any_process() -> None:
    script = (
        "from tilewright.core.records import *\n"
        "from tilewright.targets.gemmini import create_fp32_target, create_target\n"
        "from tilewright.proposers.rewriter import create_proposer\n"
        "from kernel_model import gemm\n"
        "t = create_target().brief(); p = create_proposer()\n"
        "a = Trial(0, 0, Candidate(gemm(96, 128, 64)), Failed('check', 'crash', ''))\n"
        "b = Brief(Workload('w', 'gemmini', (), 1), t, t.menu, 1, 9)\n"
        "for plan in p.plan(b, a, History([a]), 2, 7):\n"
        "    print(plan.text, [c.id for c in p.implement(b, a, plan, 2, 3)])\n"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", script],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parent,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1
    assert runs.pop().strip()


def test_a_start_with_a_schedule_is_begun_anew_once(target: TargetBrief, machine: Machine) -> None:
    kernel = read(gemm(*(shape := (64, 128, 96))), machine)
    kernel = Step.parse("pipeline B k 2").apply(kernel, machine)
    kernel = Step.parse("double-accumulator C i 2 in-place").apply(kernel, machine)
    parent, proposer = trial(emit(kernel)), create_proposer()
    plans = proposer.plan(brief(target), parent, History([parent]), 6, 1)
    anew = [p for p in plans if p.begins_anew]
    assert len(anew) == 5
    assert len(plans) == 6
    assert anew == [plans[0], *plans[2:]]
    assert anew[0].parameters["steps"] == "raise"
    assert all(str(p.parameters["steps"]).startswith("raise; ") for p in anew[1:])
    made = proposer.implement(brief(target), parent, anew[0], 1, 1)[0]
    assert made.source.partition("{")[2] == emit(raised(gemm(*shape), machine)).partition("{")[2]
    for plan in anew:
        for candidate in proposer.implement(brief(target), parent, plan, 2, 1):
            assert gemm_is_right(lift(candidate.source, machine), *shape), plan.text
    nest = Trial(1, 1, made, parent.outcome)
    child = Candidate("void kernel() {}", made.id, plans[1], "builtin")
    later = History([parent, nest, Trial(2, 2, child, parent.outcome)])
    assert not any(p.begins_anew for p in proposer.plan(brief(target), parent, later, 6, 1))
    assert evidence(later).keys() == {plans[1].option}


def test_the_first_plans_of_a_tuned_start_are_given_before_the_long_ones_are_made(
    target: TargetBrief, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the nest itself, a plan keeps the schedule and is expected to be faster, whatever the
    menu's dropout left out."""
    kernel = Step.parse("pipeline B k 2").apply(read(gemm(64, 128, 96), machine), machine)
    parent, proposer = trial(emit(kernel)), create_proposer()
    few = replace(brief(target), menu=tuple(o for o in target.menu if o.technique == "fuse"))
    plans = proposer.each_plan(few, parent, History([parent]), 6, 1)
    for long in ("draw", "whole_drafts"):
        monkeypatch.setattr(
            f"tilewright.proposers.rewriter.proposer.{long}", lambda *_, **__: 1 / 0
        )
    first, second = next(plans), next(plans)
    assert first.parameters["steps"] == "raise"
    assert not second.begins_anew
    assert second.expected_gain > 1.01
    with pytest.raises(ZeroDivisionError):
        list(plans)


def test_measured_cycles_of_unrecognised_code_count_for_plans_that_keep_it(
    target: TargetBrief,
) -> None:
    """Raising removes the core's copy. Only then is a much faster kernel expected."""
    source = (FOLDERS / "im2col_stride2" / "kernel.c").read_text()
    outcome = Measured(180_000.0, "cycles", "simulated", 0.1, Verdict(()))
    parent = replace(trial(source), outcome=outcome)
    plans = list(itertools.islice(first_plans(target, parent), 2))
    raised, kept = (plan.expected_gain or 0 for plan in plans)
    assert [plan.begins_anew for plan in plans] == [True, False]
    assert 1 < kept < 1.2
    assert raised > 8
    assert plans[1].estimated["core"] > 150_000 > plans[0].estimated["core"]


def test_a_long_nest_is_planned_for_unless_it_writes_out_a_recurrence(target: TargetBrief) -> None:
    """The borders of an image have parts of their own, but no part loads what another one stores.
    The copies of the core are the only ones that pass through memory, and the nest has none."""
    padded = (FOLDERS / "im2col_padded" / "kernel.c").read_text().replace("SIDE 13", "SIDE 4")
    assert [p.begins_anew for p in itertools.islice(first_plans(target, trial(padded)), 2)] == [
        True,
        False,
    ]


def test_a_slow_kernel_without_unrecognised_code_has_its_estimate(target: TargetBrief) -> None:
    slow, fast = (
        replace(trial(gemm(64, 64, 64)), outcome=Measured(n, "cycles", "simulated", 0.1, Verdict()))
        for n in (1e6, 1e3)
    )
    gains = [next(first_plans(target, parent)).expected_gain for parent in (slow, fast)]
    assert gains[0] == gains[1]


def first_plans(target: TargetBrief, parent: Trial) -> Iterator[Plan]:
    return create_proposer().each_plan(brief(target), parent, History([parent]), 6, 1)


@pytest.mark.parametrize(("anew", "most"), [(True, 1), (False, 3)])
def test_the_schedule_of_a_tuned_start_gets_one_long_plan_at_a_time(
    target: TargetBrief, machine: Machine, monkeypatch: pytest.MonkeyPatch, anew: bool, most: int
) -> None:
    """Where the run develops the naive nest as well."""
    parent, proposer = trial(gemm(64, 128, 96)), create_proposer()
    steps = {"steps": "raise"} | ({"anew": 1} if anew else {})
    plan = Plan(parent.candidate.id, "o", "t", "builtin", steps)
    other = Candidate("void kernel() {}", parent.candidate.id, plan)
    history = History([parent, Trial(1, 1, other, parent.outcome)])
    long: list[int] = []
    made = "tilewright.proposers.rewriter.planning.planner.descended"
    monkeypatch.setattr(made, lambda _, steps, kernel, *__: (long.append(1) or steps, kernel))
    proposer.plan(brief(target), parent, history, 6, 1)
    assert len(long) == most


def test_a_recurrence_that_raising_writes_out_is_not_begun_anew() -> None:
    target = create_fp32_target().brief()
    parent = trial((FOLDERS / "lqr_rollout" / "kernel.c").read_text())
    plans = create_proposer().each_plan(brief(target), parent, History([parent]), 6, 1)
    first, second = next(plans), next(plans)
    assert not first.begins_anew
    assert not second.begins_anew
    assert {"carry t", "hoist-loads t"} <= set(str(first.parameters["steps"]).split("; "))


@pytest.mark.parametrize("workload", ["gemm-64x128x96", "gemm-50x70x30", "conv-1x8x8x32x64-k3s1"])
def test_the_naive_nest_is_not_begun_anew(target: TargetBrief, workload: str) -> None:
    parent = trial(open_task(f"gemmini:{workload}", {}).task.start)
    plans = create_proposer().plan(brief(target), parent, History([parent]), 6, 1)
    assert not any(p.begins_anew for p in plans)


def test_kernels_that_began_anew_go_back_to_the_nest_never_to_the_start() -> None:
    start = trial("start")
    history = History([start])
    for number, (parent, steps, anew) in enumerate(
        [
            ("start", "raise", 1),
            ("start", "raise; widen", 1),
            ("k2", "banks", 0),
            ("k3", "widen", 0),
        ]
    ):
        plan = Plan(parent, "o", "t", "builtin", {"steps": steps} | ({"anew": 1} if anew else {}))
        made = Candidate(f"k{number + 1}", Candidate(parent).id, plan)
        made = replace(
            made, parent_id=history[-1].candidate.id if number > 1 else start.candidate.id
        )
        history = history.extended([replace(start, index=number + 1, candidate=made)])
    assert [t.candidate.source for t in _ancestors(history[4], history)] == ["k1", "k2", "k3"]
    assert [t.candidate.source for t in _ancestors(history[2], history)] == ["k1"]
    assert _ancestors(history[1], history) == []


def test_source_that_cannot_be_lifted_gives_no_plans(target: TargetBrief) -> None:
    for source in ("void kernel(void) { f(; }", "int x;", "void kernel(void) { helper(); }"):
        parent, proposer = trial(source), create_proposer()
        assert proposer.plan(brief(target), parent, History([parent]), 4, 1) == []
        plan = Plan(parent.candidate.id, "unroll", "t", "builtin", {"steps": "unroll i 0"})
        assert proposer.implement(brief(target), parent, plan, 2, 1) == []
        assert proposer.normalize(source, target)


def test_a_plan_of_another_proposer_is_declined(target: TargetBrief) -> None:
    parent = trial(gemm(64, 64, 64))
    plan = Plan(parent.candidate.id, "unroll", "unroll it", "llm")
    assert create_proposer().implement(brief(target), parent, plan, 2, 1) == []


@pytest.mark.slow
def test_plans_say_what_they_expect(target: TargetBrief) -> None:
    parent = trial(gemm(512, 512, 512))
    option = tuple(o for o in target.menu if o.technique == "resident")
    plans = create_proposer().plan(brief(target, option), parent, History([parent]), 3, 0)
    assert any("rows loaded" in p.expected for p in plans)
    assert all(p.text.endswith(".") for p in plans)


def test_what_binds_is_urgent() -> None:
    parent = trial("", {"bank_conflict": 600.0, "cpu": 10.0, "array_busy": 390.0})
    assert urgency(parent, "banks") > 2 > urgency(parent, "unroll") >= 1
    assert urgency(Trial(0, 0, Candidate(""), Failed("check", "crash", "")), "banks") == 1


def tried(start: Trial, number: int, iteration: int, latency: float) -> Trial:
    plan = Plan(start.candidate.id, "unroll", "t", "builtin")
    outcome = Measured(latency, "cycles", "simulated", 0.5, Verdict(()))
    candidate = Candidate(f"kernel {number}", start.candidate.id, plan)
    return Trial(number, iteration, candidate, outcome)


def mean_value(found: Evidence) -> float:
    rng = random.Random(0)
    return sum(found.sampled_value(rng) for _ in range(2000)) / 2000


@pytest.mark.parametrize(
    ("body", "serial"),
    [
        ("{loop} {{ {load_a} {store_a} }}", True),
        ("{loop} {loop2} {{ {store_a} }} {loop} {loop2} {{ {load_a} }}", False),
        ("{loop} {{ {store_a} }} {loop} {{ {load_a} }}", True),
        ("{loop} {{ {store_a} }} {load_a}", True),
        ("{store_a} fence(); {load_a}", True),
        ("{loop} {{ {load_a} }}", False),
        ("{loop} A[i][0] = A[i][1];", True),
        ("{loop} A[i][0] = A[i][1]; {loop} {{ {load_a} }}", False),
        ("{loop} {{ {load_a} }} {loop} A[i][0] = A[i][1];", True),
    ],
)
def test_layers_one_after_another_are_products(machine: Machine, body: str, serial: bool) -> None:
    moves = {
        "loop": "for (int i = 0; i < 4; i++)",
        "loop2": "for (int j = 0; j < 4; j++)",
        "load_a": "mvin(&A[0][0], SPAD(0), 16, 1);",
        "store_a": "mvout(&A[0][0], ACC(0), 16, 1);",
    }
    source = f"void kernel(float A[4][16]) {{ {body.format(**moves)} }}"
    assert passes_through_memory(lift(source, machine), machine) is serial


def test_options_that_paid_are_drawn_more_often() -> None:
    start = trial("a")
    won = evidence(History([start, *(tried(start, n, 1, 500.0) for n in range(1, 5))]))
    lost = evidence(History([start, *(tried(start, n, 1, 2000.0) for n in range(1, 5))]))
    little = evidence(History([start, *(tried(start, n, 1, 999.0) for n in range(1, 5))]))
    assert won["unroll"].paid == 4
    assert lost["unroll"].failed == 4
    assert mean_value(won["unroll"]) > mean_value(Evidence()) > mean_value(lost["unroll"])
    assert mean_value(won["unroll"]) > 5 * mean_value(little["unroll"])


def test_what_paid_long_ago_counts_less() -> None:
    start = trial("a")
    history = [start, tried(start, 1, 1, 500.0), tried(start, 2, 9, 2000.0)]
    found = evidence(History(history))["unroll"]
    assert found.failed == 1.0
    assert found.paid < 0.2


def test_the_estimate_ranks_the_expert_kernel_first(machine: Machine) -> None:
    kernel = simplify(lift(gemm(12544, 64, 256), machine))
    costs = [estimate(kernel, machine).total]
    for text in (
        "resident B i before",
        "block-load A k#2",
        "overwrite C",
        "pipeline A i 3",
        "double-accumulator C i 2 in-place",
    ):
        kernel = Step.parse(text).apply(kernel, machine)
        costs.append(estimate(kernel, machine).total)
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > 3 * costs[-1]


def test_shuffled_settings_do_not_matter(machine: Machine) -> None:
    lines = gemm(512, 512, 512).splitlines()
    settings = [n for n, line in enumerate(lines) if line.startswith("  config_")]
    order = random.Random(1).sample(settings, len(settings))
    shuffled = [
        lines[order[settings.index(n)]] if n in settings else line for n, line in enumerate(lines)
    ]
    costs = [
        estimate(simplify(lift("\n".join(text), machine)), machine).total
        for text in (lines, shuffled)
    ]
    assert costs[0] == costs[1]


@pytest.mark.slow
def test_some_plans_go_back_to_an_ancestor(target: TargetBrief, machine: Machine) -> None:
    shape = (48, 128, 64)
    start, proposer = trial(gemm(*shape)), create_proposer()
    unroll = Plan(start.candidate.id, "unroll", "t", "builtin", {"steps": "unroll jj 0"})
    child = proposer.implement(brief(target), start, unroll, 1, 0)[0]
    parent = Trial(1, 1, child, start.outcome)
    history = History([start, parent])
    found = []
    for seed in range(2):
        for plan in proposer.plan(brief(target), parent, history, 3, seed):
            if "base" in plan.parameters:
                assert plan.parameters["base"] == start.candidate.id
                assert plan.text.startswith("Go back to trial 0")
                found += proposer.implement(brief(target), parent, plan, 2, seed)
                assert create_proposer().implement(brief(target), parent, plan, 2, seed) == []
    assert found
    for candidate in found:
        assert candidate.parent_id == parent.candidate.id
        assert gemm_is_right(lift(candidate.source, machine), *shape)
