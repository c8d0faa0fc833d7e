"""What a model is sent in a turn: all that it said, and of the answers only the last ones whole.

Answers to calls by a provider's protocol are results of these calls, one for each; answers to calls
in plain text are one text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilewright.proposers.llm.messages import Message, NativeCall, ToolResult
from tilewright.tools.proposal import Proposal, Turn

LONGEST_ANSWERS = 24_000
"""Characters of all answers to one reply."""
LONGEST_FOLDED = 300
"""Characters that are kept of an answer once the next turn has been answered."""
UNKNOWN = "call"
"""What a call of a tool that there is not is named in its answer."""
_CUT = " ... (cut off)"
_LEFT_OUT = "left out: too many calls at a time"


@dataclass(frozen=True, slots=True)
class Answered:
    """What one call was answered; without a `tool`, it is said of the whole turn."""

    tool: str
    text: str


def told(turn: Turn, answers: Sequence[Answered], turns_left: int) -> Turn:
    """The turn with its answers; the last one says how many turns are left."""
    note = f"You have {turns_left} turn{'s' * (turns_left != 1)} left."
    if turns_left == 1:
        note += " In this one, submit: nothing will be answered any more."
    if turn.calls:
        results = _results(turn.calls, answers)
        folded = tuple(replace(result, text=_first_line(result.text)) for result in results)
        last = replace(results[-1], text=f"{results[-1].text}\n\n{note}")
        return replace(
            turn,
            answered=Message("user", "", results=(*results[:-1], last)),
            folded=Message("user", "", results=folded),
        )
    texts = [
        f"{number}. {answer.tool}: {answer.text}" if answer.tool else answer.text
        for number, answer in enumerate(answers, 1)
    ]
    whole = "\n\n".join(texts)
    if len(whole) > LONGEST_ANSWERS:
        whole = f"{whole[:LONGEST_ANSWERS]}{_CUT}"
    return replace(
        turn,
        answered=Message("user", f"{whole}\n\n{note}"),
        folded=Message("user", "\n\n".join(map(_first_line, texts))),
    )


def turn_messages(proposal: Proposal, native: bool) -> tuple[Message, ...]:
    """What is sent next; with `native` calls, what stays as it is is marked for the cache."""
    messages = list(proposal.request.messages)
    for number, turn in enumerate(proposal.turns, 1):
        if number == len(proposal.turns):
            messages += [turn.said, turn.answered]
        else:
            marked = native and number == len(proposal.turns) - 1
            messages += [turn.said, replace(turn.folded, stable=marked)]
    return tuple(messages)


def _results(calls: Sequence[NativeCall], answers: Sequence[Answered]) -> tuple[ToolResult, ...]:
    """A result for every call, as protocols demand: also for those that were left out.

    What is said of the whole turn answers each of its calls.
    """
    whole_turn = len(answers) == 1 and not answers[0].tool
    left = LONGEST_ANSWERS
    results = []
    for number, call in enumerate(calls):
        text = _LEFT_OUT
        if whole_turn:
            text = answers[0].text
        elif number < len(answers):
            text = answers[number].text
            text = text if len(text) <= left else f"{text[:left]}{_CUT}"
            left -= min(left, len(text))
        results.append(ToolResult(call.id, call.name, text))
    return tuple(results)


def _first_line(answer: str) -> str:
    line = answer.partition("\n")[0]
    return line if len(line) <= LONGEST_FOLDED else f"{line[:LONGEST_FOLDED]} ..."
