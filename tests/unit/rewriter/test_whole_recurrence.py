"""The sequence that does everything for a recurrence: what it leaves, that it comes first, once."""

from __future__ import annotations

import numpy as np
import pytest
from float_model import results

from tilewright.core.records import Brief, Candidate, History, Measured, Trial, Verdict, Workload
from tilewright.proposers.rewriter import create_proposer
from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.ir import Assign, Command, Loop, commands, walk
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.full_sequences import RECURRENCE, sequences
from tilewright.targets.gemmini import create_fp32_target
from tilewright.targets.gemmini.tinympc import Direction, TinyMpc
from tilewright.targets.gemmini.tinympc_naive import naive_tinympc


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_nothing_waits_and_nothing_is_copied_between_steps(direction: Direction) -> None:
    machine = Machine.of(create_fp32_target().brief())
    kernel = simplify(lift(naive_tinympc(TinyMpc(direction, 8, 4, 3), 4), machine))
    rng = np.random.default_rng(1)
    given = {a.name: rng.standard_normal(a.shape) for a in kernel.arrays if not a.local}
    (steps, after), *_ = sequences(kernel, machine, frozenset(RECURRENCE))
    assert {s.technique for s in steps} >= {"transpose", "offload", "carry", "own-rows"}
    (loop,) = (s for s in after.body if isinstance(s, Loop) and list(_products(s)))
    assert not any(isinstance(s, Assign) for s in walk(after.body))
    assert not any(machine.unit(c.name) == "sync" for c in commands(loop.body))
    assert all("NONE" not in str(c.operands[0]) for c in _products(loop))
    expected = results(kernel, given)
    for array, values in results(after, given).items():
        np.testing.assert_allclose(values, expected[array], rtol=1e-8, err_msg=array)


def _products(loop: Loop) -> list[Command]:
    return [c for c in commands(loop.body) if c.name == "compute_preloaded"]


def test_it_is_planned_first_and_once() -> None:
    target = create_fp32_target().brief()
    source = naive_tinympc(TinyMpc("backward", 4, 4, 3), 4)
    outcome = Measured(1000.0, "cycles", "simulated", 0.3, Verdict(()))
    parent = Trial(0, 0, Candidate(source), outcome)
    brief = Brief(Workload("w", "gemmini", (), 1), target, target.menu, 1, 15)
    proposer = create_proposer()
    first, *_ = proposer.plan(brief, parent, History([parent]), 3, 1)
    assert str(first.parameters["steps"]).startswith("offload i; offload i; transpose; ")
    child = Trial(1, 1, Candidate("void kernel() {}", parent.candidate.id, first, "x"), outcome)
    later = proposer.plan(brief, parent, History([parent, child]), 3, 1)
    assert first.parameters not in [p.parameters for p in later]
