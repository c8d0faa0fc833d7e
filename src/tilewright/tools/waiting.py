"""The calls of a reply that may have to wait until kernels are evaluated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilewright.core.errors import InputError
from tilewright.core.records import Candidate, Measured
from tilewright.tools.proposal import Proposal, ProposalBench
from tilewright.tools.toolbox import TOOLS, sources_to_evaluate
from tilewright.tools.turn_replies import ToolCall

BEST = "best"


def pinned(calls: Sequence[ToolCall], best: str) -> tuple[ToolCall, ...]:
    """The calls, in which `best` is replaced by the id of the present best kernel if they have to
    wait for evaluations.

    Another kernel may become the best one while they wait.
    """
    return tuple(_pinned(one, best) for one in calls)


def new_sources(bench: ProposalBench, calls: Sequence[ToolCall]) -> list[str]:
    """The unknown kernels that calls want evaluated, as many as the limit allows."""
    wanted = (source for one in calls for source in _sources(bench, one))
    new = [s for s in dict.fromkeys(wanted) if bench.find(Candidate(s).id) is None]
    return new[: bench.left]  # all of them if there is no limit


def is_submitted(bench: ProposalBench, calls: Sequence[ToolCall]) -> bool:
    """Whether a submitted kernel is known and correct."""
    submitted = (s for one in calls if one.tool == "submit" for s in _sources(bench, one))
    found = (bench.find(Candidate(source).id) for source in submitted)
    return any(trial is not None and trial.latency is not None for trial in found)


def is_near_bound(proposal: Proposal) -> bool:
    """Whether one of its kernels is so close to its bound that the search ends."""
    share = proposal.brief.stop_within
    outcomes = (trial.outcome for trial in proposal.own if share)
    return any(isinstance(o, Measured) and o.is_near_bound(share) for o in outcomes)


def _sources(bench: ProposalBench, one: ToolCall) -> Iterator[str]:
    """The kernels of a call; None if the call cannot be used, which its answer says."""
    try:
        yield from sources_to_evaluate(bench, one.tool, one.arguments)
    except InputError:
        return


def _pinned(one: ToolCall, best: str) -> ToolCall:
    tool = TOOLS.get(one.tool)
    if tool is None or not tool.evaluates:
        return one
    return replace(one, arguments=_named(one.arguments, best))


def _named(value: Any, best: str) -> Any:
    """The arguments, with `best` as a kernel's name replaced."""
    if isinstance(value, Mapping):
        return {
            key: best if key == "kernel" and part == BEST else _of_list(key, part, best)
            for key, part in value.items()
        }
    return value


def _of_list(key: object, value: Any, best: str) -> Any:
    if key == "kernels" and isinstance(value, Sequence) and not isinstance(value, str):
        return [_named(item, best) for item in value]
    return value
