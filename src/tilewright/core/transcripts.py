"""The work of models in the turns of their proposals, for reports and scripts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One call of a tool: its arguments in short form, and the first line of its answer.

    `answer` is empty if the proposal ended before an answer was sent.
    """

    tool: str
    given: str
    answer: str


@dataclass(frozen=True, slots=True)
class TurnTaken:
    """One turn of a proposal: the model's text, its calls of tools, and their cost.

    `trials` contains the indices of the trials of this turn. Tokens and dollars are None if they
    are unknown. `result_tokens` estimates how many input tokens of the next turn are answers of
    tools, because no provider counts them separately. The estimate is their share of the
    characters, or a third of their number of characters if the input tokens are unknown.
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
    """One proposal in turns. `parent` and `iteration` are None if nothing was evaluated."""

    model: str
    parent: int | None
    iteration: int | None
    turns: tuple[TurnTaken, ...]

    @property
    def result_tokens(self) -> int:
        """The sum over all turns."""
        return sum(turn.result_tokens for turn in self.turns)
