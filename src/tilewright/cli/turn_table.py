"""The work of models in turns and of agents, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from tilewright.report.text import duration, number
from tilewright.report.turns import turns_sentence

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tilewright.core.records import History
    from tilewright.core.run_notes import AgentWork
    from tilewright.core.transcripts import Transcript, TurnTaken


def turn_lines(
    transcripts: Sequence[Transcript],
    agents: Sequence[AgentWork],
    history: History,
    full: bool = False,
) -> Iterator[RenderableType]:
    """A sentence on the turns and a row for each agent; with `full`, every turn and every call."""
    if transcripts:
        hint = "" if full else "; --full of `runs show` lists them"
        yield Text(f"{turns_sentence(transcripts)}{hint}")
        for transcript in transcripts if full else ():
            yield from _proposal(transcript)
        yield ""
    if agents:
        yield _agent_table(agents, history)
        for why in sorted({work.unhidden for work in agents if work.unhidden}):
            yield Text(
                f"This system could not hide tuned kernels and project files from agents: {why}"
            )
        for work in agents if full else ():
            yield Text(f"{work.agent} in iteration {work.iteration}:", style="bold")
            yield from (Text(f"  {line}") for line in work.log)
        yield ""


def _proposal(transcript: Transcript) -> Iterator[RenderableType]:
    where = "nothing was evaluated"
    if transcript.parent is not None:
        where = f"from trial {transcript.parent} in iteration {transcript.iteration}"
    yield Text(f"{transcript.model}, {where}:", style="bold")
    for turn in transcript.turns:
        yield Text(f"  turn {turn.number}: {_taken(turn)}")
        for use in turn.tools:
            yield Text(f"    {use.tool} {use.given} -> {use.answer or '(not answered)'}")


def _taken(turn: TurnTaken) -> str:
    """The tokens, the cost and the trials of a turn, and the reason if the reply could not be
    used.
    """
    usd = f"{turn.usd:.4f} USD" if turn.usd is not None else "price unknown"
    parts = [
        f"{number(turn.input_tokens)} tokens in, {number(turn.output_tokens)} out",
        f"answers about {number(turn.result_tokens)} tokens",
        usd,
        f"trials {', '.join(map(str, turn.trials))}" if turn.trials else "",
        turn.note,
    ]
    return "; ".join(filter(None, parts))


def _agent_table(agents: Sequence[AgentWork], history: History) -> Table:
    table = Table("agent", box=None, pad_edge=False)
    for heading in ("iteration", "from trial", "evaluations", "calls", "time"):
        table.add_column(heading, justify="right")
    table.add_column("ended", overflow="fold")
    for work in agents:
        parent = history.get(work.parent)
        table.add_row(
            Text(work.agent),
            str(work.iteration),
            str(parent.index) if parent is not None else "-",
            str(work.evaluations),
            str(work.calls),
            duration(work.wall_s),
            Text(f"{work.how}{f' ({work.detail})' if work.detail else ''}"),
        )
    return table
