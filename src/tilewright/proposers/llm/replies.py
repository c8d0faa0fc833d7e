"""Parses replies. A reply that cannot be parsed is a typed failure, and prose is never interpreted
as code.

The time for parsing is proportional to the length of the reply.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tilewright.core.records import KernelLanguage, MenuOption
from tilewright.core.text import counted, plain_text
from tilewright.proposers.llm.messages import Reply

ReplyFailureKind = Literal[
    "empty",  # nothing was said
    "refused",  # the model or its provider declined
    "truncated",  # it ended in the middle, also after being continued
    "no_code",  # no fenced block, no edit and no JSON with code
    "several_blocks",  # several kernels, and nothing says which one is meant
    "edit_mismatch",  # an edit's text does not occur exactly once
    "unchanged",  # the kernel it was asked to change
    "template",  # an invalid template
    "bad_calls",  # calls of tools that cannot be read
]

OTHER = "other"
"""The option of a plan that names no option of the menu."""


@dataclass(frozen=True, slots=True)
class ReplyFailed:
    """A reply without a plan or without a kernel."""

    kind: ReplyFailureKind
    detail: str = ""


@dataclass(frozen=True, slots=True)
class PlanText:
    """A plan of a model. Its text begins with one sentence on what changes, if the model gave
    one.
    """

    option: str
    text: str
    expected: str = ""


@dataclass(frozen=True, slots=True)
class NothingWorthwhile:
    """The answer of a model that found no change that would make the kernel at least 1 % faster."""

    reason: str


MAX_PLAN_CHARACTERS = 16_000
"""Maximum number of characters of a plan's text, which later prompts contain; a longer text is cut
off.
"""

MAX_REASON_CHARACTERS = 500
"""Maximum number of characters of the reason why no change is worthwhile, which is stored in a
note.
"""

NONE = "none"
"""The option with which a model says that no change is worthwhile."""

_TAG = re.compile(r"<(/?)(think|thinking|reasoning)>")
_FENCE = re.compile(r"^[ \t]*+(`{3,}+|~{3,}+)[^\n`]*+$", re.MULTILINE)


def read_plan(
    reply: Reply, menu: Sequence[MenuOption], hidden: Sequence[MenuOption] = ()
) -> PlanText | NothingWorthwhile | ReplyFailed:
    """The plan in a reply: JSON with option, change, expected and plan, or text with headed lines.

    `menu` contains the options that the prompt offered. A heading may also name a `hidden` option,
    which the prompt did not offer. The option `none` means that there is no plan.
    """
    failure = unusable(reply)
    if failure is not None:
        return failure
    text = without_thoughts(reply.text).strip()
    document = _json_object(text)
    if document is not None and isinstance(document.get("plan"), str):
        keys = ("option", "change", "expected", "plan")
        named, change, expected, text = (_field(document, key) for key in keys)
    else:
        named, change, expected, text = _headings(text)
    if re.match(rf"{NONE}\b", named, re.IGNORECASE):
        return NothingWorthwhile((text or change or expected)[:MAX_REASON_CHARACTERS])
    if not text and not change:
        return ReplyFailed("empty", "the reply contains no plan after the headings")
    option = _option(named, text, menu, hidden)
    text = f"{change.rstrip('.')}.\n\n{text}".strip() if change else text
    return PlanText(option, text[:MAX_PLAN_CHARACTERS], expected[:MAX_PLAN_CHARACTERS])


def read_headings(reply: Reply, menu: Sequence[MenuOption]) -> PlanText:
    """The headed lines above a kernel that was written without a plan: option, change, expected."""
    above = without_thoughts(reply.text).partition("```")[0]
    named, change, expected, rest = _headings(above)
    text = (change or rest)[:MAX_PLAN_CHARACTERS]
    return PlanText(_option(named, above, menu), text, expected[:MAX_PLAN_CHARACTERS])


def read_change(reply: Reply) -> str:
    """The sentence after CHANGE above a corrected kernel; empty if there is none."""
    return _headings(without_thoughts(reply.text).partition("```")[0])[1][:MAX_PLAN_CHARACTERS]


def read_code(reply: Reply, language: KernelLanguage) -> str | ReplyFailed:
    """The one complete kernel in a reply, ending in a newline."""
    failure = unusable(reply)
    if failure is not None:
        return failure
    text = without_thoughts(reply.text)
    document = _json_object(text)
    if document is not None and isinstance(document.get("code"), str):
        return _finished(plain_text(document["code"]))
    blocks, is_open = fenced_blocks(text)
    if is_open:
        return ReplyFailed("truncated", "the last fenced block does not end")
    kernels = list(dict.fromkeys(language.kernels(blocks)))
    if not kernels:
        searched = counted(len(blocks), "fenced block")
        return ReplyFailed("no_code", f"{searched}, and none contains {language.kernel_in_words}")
    if len(kernels) > 1:
        return ReplyFailed("several_blocks", f"{len(kernels)} different kernels")
    return _finished(kernels[0])


def fenced_blocks(text: str) -> tuple[list[str], bool]:
    """The contents of all fenced blocks, and whether the last one is still open."""
    blocks: list[str] = []
    opening: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opening is None:
            opening = fence
        elif fence[1].startswith(opening[1]) and fence[0].strip() == fence[1]:
            blocks.append(text[opening.end() + 1 : fence.start()])
            opening = None
    return blocks, opening is not None


def inside_block(text: str) -> bool:
    """Whether a text that was cut off ends inside a fenced block."""
    return fenced_blocks(text)[1]


def without_thoughts(text: str) -> str:
    """The text without the parts between thinking tags."""
    tags = list(_TAG.finditer(text))
    closed = {tag[2]: tag.start() for tag in tags if tag[1]}  # the last place of each
    kept: list[str] = []
    begin, inside = 0, ""
    for tag in tags:
        if inside and tag[1] and tag[2] == inside:
            begin, inside = tag.end(), ""
        elif not inside and not tag[1] and closed.get(tag[2], -1) > tag.start():
            kept.append(text[begin : tag.start()])
            inside = tag[2]
    return "".join((*kept, text[begin:]))


def _headings(text: str) -> tuple[str, str, str, str]:
    """The texts after OPTION, CHANGE and EXPECTED, and the rest of the text."""
    named, above, below = _headed(text, "OPTION")
    expected, above, below = _headed(above + below, "EXPECTED")
    change, *rest = _headed(above, "CHANGE")  # further down, it is an ordinary word of the plan
    return named, change, expected, "".join((*rest, below)).strip()


def unusable(reply: Reply) -> ReplyFailed | None:
    """The reason why a reply cannot be used, or None."""
    if reply.stop == "refused":
        return ReplyFailed("refused", reply.text.strip()[:200])
    if not without_thoughts(reply.text).strip():
        return ReplyFailed("truncated" if reply.stop == "length" else "empty")
    if reply.stop == "length":
        return ReplyFailed(
            "truncated", "the reply was still incomplete after it had been continued"
        )
    return None


def _json_object(text: str) -> dict[str, Any] | None:
    """The JSON object that is the whole text, or the only fenced block; None if there is none."""
    blocks, is_open = fenced_blocks(text)
    whole = text.strip() if not blocks or is_open else blocks[0] if len(blocks) == 1 else ""
    if not whole.lstrip().startswith("{"):
        return None
    try:
        document = json.loads(whole)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _field(document: dict[str, Any], key: str) -> str:
    """A text field of a JSON object, without characters that only escapes can represent; "" if
    there is none.
    """
    value = document.get(key, "")
    return plain_text(value).strip() if isinstance(value, str) else ""


def _headed(text: str, heading: str) -> tuple[str, str, str]:
    """The rest of the first line that begins with `heading:`, and the texts above and below this
    line.
    """
    pattern = re.compile(
        rf"^[ \t*#>`_-]*+{heading}[*_`]*+[ \t]*+:[*_ ]*+(.*)$", re.MULTILINE | re.I
    )
    found = pattern.search(text)
    if found is None:
        return "", text, ""
    return _undecorated(found[1].strip()), text[: found.start()], text[found.end() :]


def _undecorated(text: str) -> str:
    """The text without the marks of Markdown around all of it. A mark that belongs to a word in the
    text, such as the first of two around a name, is kept.
    """
    text = text.strip("*_.")
    while len(text) > 1 and text[0] == text[-1] == "`" and "`" not in text[1:-1]:
        text = text[1:-1].strip("*_.")
    return text if text.count("`") % 2 == 0 else text.strip("`*_.")


def _option(
    named: str, text: str, menu: Sequence[MenuOption], hidden: Sequence[MenuOption] = ()
) -> str:
    """The option of a plan, which the plan names by its id, or by its number in the prompt's menu.
    Otherwise, the only option of this menu that begins a line of the text or stands in backquotes.

    An option's id elsewhere in the text may be an ordinary word, and decides nothing.
    """
    ids = [option.id for option in (*menu, *hidden)]
    low = named.lower()
    joined = re.sub(r"[\s_]+", "-", re.sub(r"^[0-9]{1,3}[.)]\s*", "", low))
    exact = [i for i in ids if i.lower() in (low, joined)] or [i for i in ids if i.lower() in low]
    if exact:
        return max(exact, key=len)
    number = re.match(r"([0-9]{1,3})(?![0-9])", named)
    if number and 1 <= int(number[1]) <= len(menu):
        return ids[int(number[1]) - 1]
    marked = [option.id for option in menu if _is_marked(option.id, text)]
    return marked[0] if len(marked) == 1 else OTHER


def _is_marked(option: str, text: str) -> bool:
    """Whether an option's id begins a line, after marks of Markdown, or stands in backquotes."""
    word = re.escape(option)
    begins = rf"^[ \t*#>_-]*+(?:[0-9]{{1,3}}+[.)][ \t*_]*+)?{word}(?![\w-])"
    return re.search(rf"{begins}|`{word}`", text, re.MULTILINE | re.IGNORECASE) is not None


def _finished(code: str) -> str:
    return code.strip("\n") + "\n"
