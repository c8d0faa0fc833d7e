"""Steps that the latency model chooses after the estimate."""

from __future__ import annotations

import math
import random
from functools import partial

import nki_kernels as world
import pytest
from test_nki_join import filtered
from test_nki_legality import read

from tilewright.core.records import History, MenuOption
from tilewright.proposers.nki.ir import Kernel
from tilewright.proposers.nki.planning import polishing
from tilewright.proposers.nki.planning.planner import draw
from tilewright.proposers.nki.planning.polishing import executed, polished
from tilewright.proposers.nki.planning.steps import Step, possible
from tilewright.proposers.nki.printing import print_kernel
from tilewright.targets.trainium.modelling import modelled_ns

NAME = "sd_attention-512x64"
LARGE = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(q, k, v):
    out = nl.ndarray((512, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    a = nl.ndarray((128, 60000), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=a, value=0.0)
    for i in nl.affine_range(4):
        nisa.dma_copy(dst=out[i * 128 : i * 128 + 128], src=a[:, 0:64])
    return out
"""


def modelled(name: str, kernel: Kernel) -> float | None:
    return modelled_ns("trn1", print_kernel(kernel), world.opened(name).workload)


def test_steps_that_the_estimate_does_not_tell_apart_are_chosen_by_the_model() -> None:
    kernel = world.naive(NAME)
    found = polished([((), kernel)], ["engine", "strip"], partial(modelled, NAME))
    assert found is not None
    steps, after = found
    before, now = modelled(NAME, kernel), modelled(NAME, after)
    assert steps
    assert before is not None
    assert now is not None
    assert now < before
    assert world.is_right(NAME, print_kernel(after), 0.02)


def test_it_begins_with_the_fastest_kernel_that_needs_no_bfloat16() -> None:
    kernel = read(filtered(7, 8, 9))
    narrowed, jammed = Step.parse("narrow x"), Step.parse("jam r 2")
    latencies = {(): 5.0, (jammed,): 3.0, (narrowed,): 1.0}
    kernels = {(): kernel, (jammed,): jammed.apply(kernel), (narrowed,): jammed.apply(kernel)}
    timed = iter([5.0, 3.0])
    found = polished([(s, kernels[s]) for s in latencies], [], lambda kernel: next(timed))
    assert found is not None
    assert found[0] == (jammed,)


def test_the_work_is_limited_by_the_number_of_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = world.naive(NAME)
    asked: list[Kernel] = []

    def latency(kernel: Kernel) -> float:
        asked.append(kernel)
        return 1000.0 - len(asked)

    monkeypatch.setattr(polishing, "MOST_INSTRUCTIONS", 2000)
    assert polished([((), kernel)], ["engine"], latency) is not None
    assert 1 < len(asked) <= 2000 // executed(kernel.body)
    monkeypatch.setattr(polishing, "MOST_INSTRUCTIONS", 0)
    assert polished([((), kernel)], ["engine"], latency) is None


def test_instructions_are_counted_in_all_iterations() -> None:
    source = world.opened(NAME).start
    trace = world.traced(NAME, source)
    assert executed(world.naive(NAME).body) == len(trace.instructions)


def test_the_polished_sequence_is_drawn_first() -> None:
    kernel = read(filtered(7, 8, 9))
    menu = [MenuOption("one", "", "join"), MenuOption("two", "", "jam")]
    wanted = possible(kernel, "jam")[0]
    after = wanted.apply(kernel)

    def latency(found: Kernel) -> float:
        return 1.0 if found == after else 2.0

    drafts = list(
        draw(kernel, menu, ("join", "jam"), History(()), 4, random.Random(0), latency=latency)
    )
    assert drafts[0].kernel == after
    assert len(drafts) <= 4


def test_kernels_that_break_a_rule_or_do_not_fit_have_no_latency() -> None:
    workload = world.opened(NAME).workload
    assert modelled_ns("trn1", "def kernel(", workload) is None
    assert modelled_ns("trn1", LARGE, workload) is None
    assert modelled_ns("trn1", LARGE.replace("60000", "600"), workload) is not None
    found = modelled_ns("trn1", world.opened(NAME).start, workload)
    assert found is not None
    assert 0 < found < math.inf
