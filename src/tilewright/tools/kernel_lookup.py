"""Finds the kernels that calls of tools name by an id, a word or the whole source, and applies
edits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tilewright.core.errors import InputError
from tilewright.core.records import KernelLanguage, Trial, content_id
from tilewright.core.text import plain_text
from tilewright.proposers.llm.edits import apply_edits, read_edits
from tilewright.proposers.llm.replies import ReplyFailed
from tilewright.tools.bench import Bench

_ID = re.compile(r"[0-9a-f]{6,16}")
_NAME = re.compile(r"\w{1,60}")
_SHOWN = 60
"""Maximum number of characters of a name that a message repeats."""


def known_trial(bench: Bench, given: Mapping[str, Any]) -> Trial:
    """The evaluated kernel that a call names; `InputError` if there is none."""
    named = str(given.get("kernel", "parent"))
    trial = _named(bench, named)
    if trial is None:
        which = f"kernel {plain_text(named)!r}" if _NAME.fullmatch(named) else "this kernel"
        raise InputError(
            f"{which} was not evaluated. Evaluate it, or give the id of an evaluated kernel."
        )
    return trial


def _named(bench: Bench, name: str) -> Trial | None:
    if name == "parent":
        return bench.parent
    if name == "best":
        return bench.best or bench.parent
    if name == "start":
        return bench.start
    return bench.find(name if _ID.fullmatch(name) else content_id(name))


def source_of(bench: Bench, given: Mapping[str, Any]) -> str:
    """The kernel that a call names, with its edits applied; `InputError` if an edit cannot be
    applied.

    It is stored in the bench's drafts, so that later calls can name it by its id.
    """
    text = str(given.get("kernel", "parent"))
    name, source = text.strip(), text
    if name in bench.drafts:
        source = bench.drafts[name]
    elif name in ("start", "parent", "best") or _ID.fullmatch(name):
        source = known_trial(bench, {**given, "kernel": name}).candidate.source
    elif _is_no_source(name, bench.target.language):
        raise InputError(
            f"{plain_text(name[:_SHOWN])!r} is neither the id of a kernel of this run nor the "
            "source of a kernel. Give an id that a tool printed, start, parent, best or a whole "
            "source."
        )
    if not given.get("edits"):
        return _kept(bench, source)
    edits = read_edits(given["edits"])
    if not edits:
        raise InputError(
            "edits contains no edit. Write the lines to find between <<<<<<< SEARCH and =======, "
            "and those to put in their place between ======= and >>>>>>> REPLACE."
        )
    changed = apply_edits(source, edits)
    if isinstance(changed, ReplyFailed):
        raise InputError(f"the edits cannot be made: {changed.detail}.")
    return _kept(bench, changed)


def _is_no_source(text: str, language: KernelLanguage) -> bool:
    """Whether a text is probably a misspelt name, which is one line without the name of the
    kernel's function.

    Every kernel defines this function. A text without it would fail to build, and cost an
    evaluation.
    """
    return "\n" not in text and language.entry not in text


def _kept(bench: Bench, source: str) -> str:
    bench.drafts[content_id(source)] = source
    return source
