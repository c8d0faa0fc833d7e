"""What models did in the turns of their proposals, as reports and scripts read it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One call of a tool: what it was given, in short, and the first line of its answer.

    `answer` is empty where none was sent: the proposal was over.
    """

    tool: str
    given: str
    answer: str


@dataclass(frozen=True, slots=True)
class TurnTaken:
    """One turn of a proposal: what the model said and called, and what that took.

    `trials` are the kernels of it that were evaluated, by their index. Tokens and dollars are None
    where they are unknown. `result_tokens` is what the tools' answers take of the next turn's
    input: no provider counts them apart, so they are its input tokens by their share of its
    characters, or a third of the characters where it does not say.
    """

    number: int
    said: str
    tools: tuple[ToolUse, ...]
    trials: tuple[int, ...]
    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    result_tokens: int
    usd: float | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Transcript:
    """One proposal in turns. `parent` and `iteration` are None where nothing was evaluated."""

    model: str
    parent: int | None
    iteration: int | None
    turns: tuple[TurnTaken, ...]

    @property
    def result_tokens(self) -> int:
        """Of all turns."""
        return sum(turn.result_tokens for turn in self.turns)
