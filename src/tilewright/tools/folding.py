"""Shortens prompts: kernels in a model's earlier replies are replaced by their ids."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tilewright.core.records import Candidate
from tilewright.proposers.llm.messages import Message
from tilewright.proposers.llm.replies import fenced_blocks
from tilewright.tools.proposal import Proposal

SHORTEST_FOLDED = 400
"""Minimum number of characters of a kernel that is replaced."""


def folded_replies(proposal: Proposal) -> Mapping[int, Message]:
    """The replies of a proposal that are sent in shortened form, by turn, counted from 0.

    The latest kernels and the fastest kernel are not replaced. Replies in the form of a provider
    are sent back unchanged, as the protocols require.
    """
    written = [_written(turn.said, _known(proposal)) for turn in proposal.turns]
    last = next((blocks for blocks in reversed(written) if blocks), {})
    kept = {*last, *_fastest(proposal)}
    folded = {}
    for number, (turn, blocks) in enumerate(zip(proposal.turns, written, strict=True)):
        text = turn.said.text
        for kernel, block in blocks.items():
            if kernel not in kept and len(block) >= SHORTEST_FOLDED:
                count = block.count("\n")
                text = text.replace(block, f"(kernel {kernel}, {count} lines: see show)\n")
        if text != turn.said.text:
            folded[number] = replace(turn.said, text=text)
    return folded


def _written(said: Message, known: Collection[str]) -> dict[str, str]:
    """The kernels in a reply that were built or evaluated, by their ids."""
    if said.raw:
        return {}
    blocks = {Candidate(block).id: block for block in fenced_blocks(said.text)[0]}
    return {kernel: block for kernel, block in blocks.items() if kernel in known}


def _known(proposal: Proposal) -> Collection[str]:
    return {*(trial.candidate.id for trial in proposal.own), *dict(proposal.drafts)}


def _fastest(proposal: Proposal) -> Sequence[str]:
    timed = [trial for trial in proposal.own if trial.latency is not None]
    best = min(timed, key=lambda trial: trial.latency or 0.0, default=None)
    return [best.candidate.id] if best is not None else []
