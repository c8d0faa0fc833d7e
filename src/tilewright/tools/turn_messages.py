"""The messages for a model in a turn: its own replies, and the tools' answers, of which only the
last ones are complete.

Answers to calls by a provider's protocol are results of these calls, one for each; answers to calls
in plain text are one text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilewright.core.text import counted
from tilewright.proposers.llm.messages import Message, NativeCall, ToolResult
from tilewright.tools.answer_summaries import LONGEST_GIST
from tilewright.tools.folding import folded_replies
from tilewright.tools.proposal import Proposal, Turn

LONGEST_ANSWERS = 24_000
"""Maximum number of characters of all answers to one reply."""
LONGEST_FOLDED = LONGEST_GIST + 40
"""Maximum number of characters of an answer in later turns, including its number."""
UNKNOWN = "call"
"""The name of an unknown tool in the answer to its call."""
_CUT = " ... (cut off)"
_LEFT_OUT = "left out: too many calls in one answer"


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to one call, or without a `tool` a message about the whole turn.

    `gist` is its short form for later turns, by default the first line.
    """

    tool: str
    text: str
    gist: str = ""

    @property
    def kept(self) -> str:
        """The short form for later turns."""
        return _first_line(self.gist or self.text)


def told(turn: Turn, answers: Sequence[Answered], turns_left: int) -> Turn:
    """The turn with its answers, of which the last one gives the number of turns that are left."""
    note = f"You have {counted(turns_left, 'turn')} left."
    if turns_left == 1:
        note += " Submit a kernel in this turn, because no further call will be answered."
    if turn.calls:
        results = _results(turn.calls, answers)
        kept = _results(turn.calls, [Answered(one.tool, one.kept) for one in answers])
        folded = tuple(replace(result, text=_first_line(result.text)) for result in kept)
        last = replace(results[-1], text=f"{results[-1].text}\n\n{note}")
        return replace(
            turn,
            answered=Message("user", "", results=(*results[:-1], last)),
            folded=Message("user", "", results=folded),
        )
    whole = "\n\n".join(_numbered(answers, [answer.text for answer in answers]))
    if len(whole) > LONGEST_ANSWERS:
        whole = f"{whole[:LONGEST_ANSWERS]}{_CUT}"
    return replace(
        turn,
        answered=Message("user", f"{whole}\n\n{note}"),
        folded=Message("user", "\n".join(_numbered(answers, [one.kept for one in answers]))),
    )


def turn_messages(proposal: Proposal, native: bool) -> tuple[Message, ...]:
    """The messages that are sent next. With `native` calls, the part that does not change is marked
    for the provider's cache.
    """
    messages = list(proposal.request.messages)
    replies = folded_replies(proposal)
    for number, turn in enumerate(proposal.turns, 1):
        said = replies.get(number - 1, turn.said)
        if number == len(proposal.turns):
            messages += [said, turn.answered]
        else:
            marked = native and number == len(proposal.turns) - 1
            messages += [said, replace(turn.folded, stable=marked)]
    return tuple(messages)


def _numbered(answers: Sequence[Answered], texts: Sequence[str]) -> list[str]:
    """Each answer, preceded by the number and the tool of its call."""
    return [
        f"{number}. {answer.tool}: {text}" if answer.tool else text
        for number, (answer, text) in enumerate(zip(answers, texts, strict=True), 1)
    ]


def _results(calls: Sequence[NativeCall], answers: Sequence[Answered]) -> tuple[ToolResult, ...]:
    """A result for every call, including calls that were not carried out, as protocols require.

    A message about the whole turn is the answer to each of its calls.
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
    return line if len(line) <= LONGEST_GIST + 4 else f"{line[:LONGEST_GIST]} ..."
