"""The log of a run as sentences. The content of a log is not trusted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from tilewright.report.text import number

_MOST_CHARACTERS = 400
"""Maximum number of characters of a value in a sentence."""


def sentence(kind: str, data: Mapping[str, object]) -> str:
    """The sentence for a log line of one of the kinds in `LOGGED`."""
    return _SENTENCES[kind](data)


def _started(data: Mapping[str, object]) -> str:
    trials = data.get("trials")
    return f"The search continued after {_count(trials)} trials." if trials else "The search began."


def _iteration(data: Mapping[str, object]) -> str:
    best = f"; the lowest latency so far is {_count(data['best'])}" if data.get("best") else ""
    evaluated = _count(data.get("trials"))
    return f"Iteration {_count(data.get('iteration'))} ended after {evaluated} evaluations{best}."


def _failed(data: Mapping[str, object]) -> str:
    return f"A step of the proposer failed: {_quoted(data.get('log'))}"


def _noted(data: Mapping[str, object]) -> str:
    return f"Note: {_quoted(data.get('text'))}."


def _stopped(data: Mapping[str, object]) -> str:
    return f"The search ended because {_quoted(data.get('reason'))}."


def _rechecked(data: Mapping[str, object]) -> str:
    found = "and confirmed" if data.get("confirmed") is True else "but not confirmed"
    return f"The kernel {_quoted(data.get('candidate'))} was checked again on new inputs {found}."


def _agent(data: Mapping[str, object]) -> str:
    work = f"{_count(data.get('evaluations'))} evaluations and {_count(data.get('calls'))} calls"
    detail = f": {_quoted(data['detail'])}" if data.get("detail") else ""
    agent = f"The agent {_quoted(data.get('agent'))}"
    return f"{agent} ended after {work} ({_quoted(data.get('how'))}){detail}."


_SENTENCES: Mapping[str, Callable[[Mapping[str, object]], str]] = {
    "RunStarted": _started,
    "IterationFinished": _iteration,
    "ProposalFailed": _failed,
    "Noted": _noted,
    "Stopped": _stopped,
    "Rechecked": _rechecked,
    "AgentWork": _agent,
}
LOGGED = tuple(_SENTENCES)
"""The kinds of lines in a run's event log that the page shows."""


def _count(value: object) -> str:
    if isinstance(value, int | float) and math.isfinite(value):
        return number(value)
    return _quoted(value)


def _quoted(value: object) -> str:
    text = "?" if value is None else str(value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."
