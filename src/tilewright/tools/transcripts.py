"""Reads transcripts of proposals in turns from the run's calls to models.

A call of turn N contains everything before this turn. The answers of its tools are at the end of
the call of turn N + 1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.core.errors import StorageError
from tilewright.core.records import CallRecord, Trial
from tilewright.core.text import plain_text
from tilewright.core.transcripts import ToolUse, Transcript, TurnTaken
from tilewright.proposers.llm.caller import GO_ON
from tilewright.proposers.llm.messages import (
    Message,
    Reply,
    Request,
    reply_from_json,
    request_from_json,
)
from tilewright.proposers.llm.prices import CHARACTERS_PER_TOKEN
from tilewright.tools.turn_messages import UNKNOWN
from tilewright.tools.turn_replies import ToolCall, written_calls

Exchanges = Iterable[tuple[str, Mapping[str, object], Mapping[str, object]]]
"""Key, request and reply of calls to models, in the order in which they were made."""

LONGEST_SAID = 2000
"""Maximum number of characters of a model's text in a turn."""
LONGEST_GIVEN = 120
LONGEST_ANSWER = 300
_TURN = re.compile(r"turn ([1-9]\d{0,3})")


@dataclass(frozen=True, slots=True)
class _Asked:
    """One call of one turn."""

    number: int
    request: Request
    reply: Reply
    record: CallRecord


def transcripts(
    exchanges: Exchanges, records: Sequence[CallRecord], trials: Iterable[Trial]
) -> list[Transcript]:
    """Every proposal in turns of a run, in the order of their first calls."""
    by_key = {record.key: record for record in records}
    proposals: dict[str, list[_Asked]] = {}
    for key, sent, received in exchanges:
        found = _TURN.fullmatch(str(sent.get("phase")))
        if found is None or key not in by_key:
            continue
        try:
            request, reply = request_from_json(sent), reply_from_json(received)
        except ValueError as error:
            raise StorageError(
                f"a stored call to a model cannot be read ({error}). Restore the database from a "
                "copy."
            ) from error
        asked = _Asked(int(found[1]), request, reply, by_key[key])
        proposals.setdefault(_proposal(request, asked.number), []).append(asked)
    made: dict[str, list[Trial]] = {}
    for trial in trials:
        plan = trial.candidate.plan
        if plan is not None and plan.turn is not None:
            made.setdefault(str(plan.parameters.get("proposal")), []).append(trial)
    indices = {trial.candidate.id: trial.index for trial in trials}
    return [
        _transcript(asked, made.get(proposal, []), indices) for proposal, asked in proposals.items()
    ]


def _proposal(request: Request, number: int) -> str:
    """The name of a proposal in its kernels, which is the key of its first request."""
    messages = _without_continuations(request.messages)
    began = messages[: len(messages) - 2 * (number - 1)]
    return replace(request, phase="implement", messages=began, tools=()).key


def _without_continuations(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages without the requests to continue a reply that was cut off."""
    while messages and messages[-1].text == GO_ON:
        messages = messages[:-2]
    return messages


def _transcript(
    asked: Sequence[_Asked], made: Sequence[Trial], indices: Mapping[str, int]
) -> Transcript:
    turns: dict[int, list[_Asked]] = {}
    for one in asked:
        turns.setdefault(one.number, []).append(one)
    first = made[0] if made else None
    parent = first.candidate.parent_id if first else None
    return Transcript(
        asked[0].request.model,
        indices.get(parent) if parent else None,
        first.iteration if first else None,
        tuple(
            _turn(number, parts, turns.get(number + 1, []), made)
            for number, parts in sorted(turns.items())
        ),
    )


def _turn(
    number: int, parts: Sequence[_Asked], following: Sequence[_Asked], made: Sequence[Trial]
) -> TurnTaken:
    """One turn; `parts` are its call and the calls that requested continuations."""
    said = "".join(part.reply.text for part in parts)
    whole = replace(parts[-1].reply, text=said)
    records = [part.record for part in parts]
    answers = following[0].request.messages[-1] if following else None
    plans = [(trial, trial.candidate.plan) for trial in made]
    return TurnTaken(
        number,
        plain_text(said[:LONGEST_SAID]),
        tools_used(written_calls(whole), answers),
        tuple(trial.index for trial, plan in plans if plan is not None and plan.turn == number),
        _sum(record.input_tokens for record in records),
        _sum(record.cached_tokens for record in records),
        _sum(record.output_tokens for record in records),
        _result_tokens(following[0]) if following else 0,
        _dollars(records),
        "; ".join(filter(None, (record.note for record in records))),
    )


def tools_used(calls: Sequence[ToolCall], answers: Message | None) -> tuple[ToolUse, ...]:
    """Each call with the first line of its answer."""
    found = _answers(calls, answers) if answers is not None else [""] * len(calls)
    return tuple(
        ToolUse(
            plain_text(call.tool[:LONGEST_GIVEN]),
            _given(call.arguments),
            answer.partition("\n")[0][:LONGEST_ANSWER],
        )
        for call, answer in zip(calls, found, strict=True)
    )


def _answers(calls: Sequence[ToolCall], answers: Message) -> list[str]:
    """The answer to each call. In a text, each answer begins with the number and the name of its
    call.
    """
    if answers.results:
        texts = [result.text for result in answers.results]
        return [*texts[: len(calls)], *[""] * (len(calls) - len(texts))]
    found, rest = [], answers.text
    for number, call in enumerate(calls, 1):
        # The answer to a call of an unknown tool can have the name of any call.
        heading = re.compile(rf"(?:^|\n){number}\. (?:{re.escape(call.tool)}|{UNKNOWN}): ")
        _, *after = heading.split(rest, maxsplit=1)
        found.append(after[0] if after else "")
        rest = after[0] if after else rest
    return found


def _given(arguments: object) -> str:
    """Arguments in one line, in which a kernel is replaced by its length."""
    if not isinstance(arguments, Mapping):
        return "(no JSON object)"
    parts = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value)
        lines = text.count("\n")
        shown = f"{lines + 1} lines" if lines else text
        parts.append(f"{name}: {shown}")
    return plain_text(", ".join(parts)[:LONGEST_GIVEN]).replace("\n", " ")


def _result_tokens(asked: _Asked) -> int:
    """Estimated input tokens of the answers at the end of a call."""
    characters, answers = asked.request.characters, asked.request.messages[-1].characters
    known = asked.record.input_tokens
    if known is None:
        return round(answers / CHARACTERS_PER_TOKEN)
    return round(known * answers / max(1, characters))


def _dollars(records: Sequence[CallRecord]) -> float | None:
    if any(record.usd is None for record in records):
        return None
    return sum(record.usd or 0.0 for record in records)


def _sum(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
