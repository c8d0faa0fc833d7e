"""Reads replies. What cannot be read is a typed failure; prose is never taken for code."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tilewright.core.records import MenuOption
from tilewright.proposers.llm.messages import Reply

ReplyFailureKind = Literal[
    "empty",  # nothing was said
    "refused",  # the model or its provider declined
    "truncated",  # it ended in the middle, also after being continued
    "no_code",  # no fenced block, no edit and no JSON with code
    "several_blocks",  # several kernels, and nothing says which one is meant
    "edit_mismatch",  # an edit's text does not occur exactly once
    "unchanged",  # the kernel it was asked to change
]

OTHER = "other"
"""Option of a plan whose text names none of the menu."""


@dataclass(frozen=True, slots=True)
class ReplyFailed:
    """A reply that holds no plan or no kernel."""

    kind: ReplyFailureKind
    detail: str = ""


@dataclass(frozen=True, slots=True)
class PlanText:
    """A plan as a model wrote it."""

    option: str
    text: str
    expected: str = ""


_THOUGHTS = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL)
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n`]*$", re.MULTILINE)
_KERNEL = re.compile(r"\bkernel\s*\(")


def read_plan(reply: Reply, menu: Sequence[MenuOption]) -> PlanText | ReplyFailed:
    """The plan in a reply: JSON with option, plan and expected, or text with headed lines."""
    failure = _unusable(reply)
    if failure is not None:
        return failure
    text = _THOUGHTS.sub("", reply.text).strip()
    document = _json_object(text)
    if document is not None and isinstance(document.get("plan"), str):
        plan = document["plan"].strip()
        option = _option(str(document.get("option", "")), plan, menu)
        return PlanText(option, plan, str(document.get("expected", "")).strip())
    named, text = _headed(text, "OPTION")
    expected, text = _headed(text, "EXPECTED")
    if not text:
        return ReplyFailed("empty", "no plan after the headings")
    return PlanText(_option(named, text, menu), text, expected)


def read_code(reply: Reply) -> str | ReplyFailed:
    """The one complete kernel in a reply, ending in a newline."""
    failure = _unusable(reply)
    if failure is not None:
        return failure
    text = _THOUGHTS.sub("", reply.text)
    document = _json_object(text)
    if document is not None and isinstance(document.get("code"), str):
        return _finished(document["code"])
    blocks, is_open = fenced_blocks(text)
    if is_open:
        return ReplyFailed("truncated", "the last fenced block does not end")
    kernels = list(dict.fromkeys(b for b in blocks if _KERNEL.search(b)))
    if not kernels:
        return ReplyFailed("no_code", f"{len(blocks)} fenced blocks, none with a kernel")
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
    """Whether a text that broke off did so inside a fenced block."""
    return fenced_blocks(text)[1]


def _unusable(reply: Reply) -> ReplyFailed | None:
    if reply.stop == "refused":
        return ReplyFailed("refused", reply.text.strip()[:200])
    if not _THOUGHTS.sub("", reply.text).strip():
        return ReplyFailed("truncated" if reply.stop == "length" else "empty")
    if reply.stop == "length":
        return ReplyFailed("truncated", "still incomplete after it was continued")
    return None


def _json_object(text: str) -> dict[str, Any] | None:
    """The JSON object that is the whole text, or the only fenced block; None if there is none."""
    blocks, is_open = fenced_blocks(text)
    whole = text.strip() if not blocks or is_open else blocks[0] if len(blocks) == 1 else ""
    if not whole.lstrip().startswith("{"):
        return None
    try:
        document = json.loads(whole)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _headed(text: str, heading: str) -> tuple[str, str]:
    """The rest of the first line that begins with `heading:`, and the text without that line."""
    pattern = re.compile(rf"^[\s*#>`_-]*{heading}[*_`]*\s*:[*_` ]*(.*)$", re.MULTILINE | re.I)
    found = pattern.search(text)
    if found is None:
        return "", text
    rest = text[: found.start()] + text[found.end() :]
    return found[1].strip().strip("`*_."), rest.strip()


def _option(named: str, text: str, menu: Sequence[MenuOption]) -> str:
    """The menu option a plan is on: named by id or number, else the only one it mentions."""
    ids = [option.id for option in menu]
    low = named.lower()
    exact = [i for i in ids if i.lower() == low] or [i for i in ids if i.lower() in low]
    if exact:
        return max(exact, key=len)
    number = re.fullmatch(r"(\d+)\W*.*", named)
    if number and 1 <= int(number[1]) <= len(ids):
        return ids[int(number[1]) - 1]
    mentioned = [i for i in ids if re.search(rf"(?<![\w-]){re.escape(i)}(?![\w-])", text, re.I)]
    return mentioned[0] if len(mentioned) == 1 else OTHER


def _finished(code: str) -> str:
    return code.strip("\n") + "\n"
