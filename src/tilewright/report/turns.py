"""Transcripts of models that worked in turns, and of agents, shortened for a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from tilewright.core.records import History
from tilewright.core.run_notes import AgentWork
from tilewright.core.text import counted
from tilewright.core.transcripts import Transcript
from tilewright.report.diffs import cut
from tilewright.report.text import number

_SAID_BUDGET = 1_000_000
"""Maximum number of characters of the texts of all turns in a report. Each turn has at least
`_LEAST_SAID`.
"""
_LEAST_SAID = 200
_LONGEST_SAID = 2000
_MOST_PROPOSALS = 500
"""Maximum number of proposals on a page; `runs show --json` lists all."""
_LONGEST_OUTPUT = 4000


@dataclass(frozen=True, slots=True)
class AgentView:
    """The work of one agent; `parent` is the trial with which it began, or None if this is
    unknown.
    """

    work: AgentWork
    parent: int | None
    output: str


@dataclass(frozen=True, slots=True)
class TurnsView:
    """The proposals in turns and the work of agents; `left_out` is the number of proposals that are
    not shown.
    """

    transcripts: tuple[Transcript, ...] = ()
    agents: tuple[AgentView, ...] = ()
    left_out: int = 0
    sentence: str = ""


def turns_view(
    transcripts: Sequence[Transcript], agents: Sequence[AgentWork], history: History
) -> TurnsView:
    """The first proposals, with the text of each turn shortened to its share of the page."""
    shown = transcripts[:_MOST_PROPOSALS]
    turns = sum(len(transcript.turns) for transcript in shown)
    share = min(_LONGEST_SAID, max(_LEAST_SAID, _SAID_BUDGET // max(1, turns)))
    return TurnsView(
        tuple(
            replace(t, turns=tuple(replace(turn, said=cut(turn.said, share)) for turn in t.turns))
            for t in shown
        ),
        tuple(
            AgentView(work, _index(history, work), work.output[-_LONGEST_OUTPUT:])
            for work in agents
        ),
        len(transcripts) - len(shown),
        turns_sentence(transcripts) if transcripts else "",
    )


def turns_sentence(transcripts: Sequence[Transcript]) -> str:
    """A sentence on the number of proposals, turns and tool calls, and on the input tokens of the
    tools' answers.
    """
    turns = [turn for transcript in transcripts for turn in transcript.turns]
    tools = sum(len(turn.tools) for turn in turns)
    tokens = sum(transcript.result_tokens for transcript in transcripts)
    worked = f"{counted(len(transcripts), 'proposal')} in {counted(len(turns), 'turn')}"
    called = f"{counted(tools, 'call')} of tools"
    return f"{worked} with {called}, whose answers took about {number(tokens)} input tokens"


def turns_json(
    transcripts: Sequence[Transcript], agents: Sequence[AgentWork], history: History
) -> dict[str, object]:
    """The same data for `--json`, not shortened. An agent's kernels are named by the candidates of
    their trials.
    """
    return {
        "proposals": [asdict(transcript) for transcript in transcripts],
        "agents": [_agent_json(work, history) for work in agents],
    }


def _agent_json(work: AgentWork, history: History) -> Mapping[str, object]:
    fields = asdict(work)
    del fields["sources"], fields["notes"]
    return {**fields, "parent_trial": _index(history, work)}


def _index(history: History, work: AgentWork) -> int | None:
    parent = history.get(work.parent)
    return parent.index if parent is not None else None
