"""Every rewrite that is offered keeps what a kernel computes, and fits or says that it does not."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import nki_kernels as world
import pytest

from tilewright.proposers.nki.estimate.cost import estimate
from tilewright.proposers.nki.planning.steps import TECHNIQUES, Step, steps_of
from tilewright.proposers.nki.printing import print_kernel

GOLDEN = Path(__file__).parents[2] / "golden" / "nki"
MOST = 6
"""Places of each technique that are tried."""
EXACT = tuple(technique for technique in TECHNIQUES if technique != "narrow")


@pytest.mark.parametrize("name", world.SMALL)
def test_every_offered_rewrite_keeps_the_result(name: str) -> None:
    kernel, offered = world.naive(name), 0
    for technique in EXACT:
        for step, after in islice(steps_of(kernel, technique), MOST):
            source = print_kernel(after)
            if estimate(after).fits and world.fits(name, source):
                assert world.is_right(name, source), f"{step}\n{source}"
                offered += 1
    assert offered >= 2


STEPS = {
    "jam": ("gemm-256x1024x256", "jam n 0"),
    "hoist": ("gemm-256x1024x256", "hoist right m"),
    "exchange": ("gemm-256x1024x256", "exchange m"),
    "fuse": ("attention-512x128", "fuse i; fuse i"),
    "forward": ("attention-512x128", "fuse i; fuse i; forward 7; forward 14"),
    "skip-copy": ("attention-512x128", "fuse i; fuse i; forward 7; skip-copy 5"),
    "land": ("attention-512x128", "fuse i; fuse i; forward 7; land 6"),
    "merge": ("rmsnorm-256x512", "merge 8; merge 4"),
    "engine": ("rmsnorm-256x512", "engine 4 scalar"),
    "narrow": ("sd_attention-512x64", "narrow part"),
    "stay": ("attention-512x128", "stay i"),
    "take-over": ("attention-512x128", "stay i; take-over 6"),
    "defer": ("attention-512x128", "stay i; skip-copy 13; defer 12"),
    "unfold": ("conv1d-2x128x32-k3", "jam w 0; unfold 5"),
    "strip": ("layernorm-256x1024", "strip 11 512"),
    "psum": ("mamba-1x256x2x64", "psum state"),
    "along": ("attention-1024x128", "stay i; take-over 6; along 6"),
    "spread": ("mamba-1x256x2x64", "spread 5"),
    "early": ("mamba-1x256x2x64", "early 8 s"),
}


@pytest.mark.parametrize("name", STEPS)
def test_golden(name: str, update_golden: bool) -> None:
    workload, steps = STEPS[name]
    kernel = world.naive(workload)
    for text in steps.split("; "):
        step = Step.parse(text)
        assert str(step) == text
        kernel = step.apply(kernel)
    path = GOLDEN / f"{name}.py"
    if update_golden:
        path.write_text(print_kernel(kernel))
    assert print_kernel(kernel) == path.read_text()
    assert world.is_right(workload, print_kernel(kernel), 1e-4 if name != "narrow" else 0.1)
