"""Finds kernels in replies, as whole sources, as edits of another kernel, or as templates."""

from __future__ import annotations

from dataclasses import replace

from tilewright.core.errors import InputError
from tilewright.core.records import KernelLanguage, Plan
from tilewright.core.templates import parse_template
from tilewright.proposers.llm.edits import apply_edits, read_edits
from tilewright.proposers.llm.messages import Reply
from tilewright.proposers.llm.replies import ReplyFailed, read_code


def source_in(
    reply: Reply, base: str, language: KernelLanguage, *, edits: bool
) -> str | ReplyFailed:
    """The kernel in a reply, which contains the whole source, or edits of `base` if `edits` were
    requested.
    """
    found = read_edits(reply.text) if edits and reply.stop == "end" else []
    source = apply_edits(base, found) if found else read_code(reply, language)
    form = language.normal_form
    if isinstance(source, str) and form(source) == form(base):
        return ReplyFailed("unchanged")
    return source


def first_instance(
    source: str, plan: Plan | None, language: KernelLanguage
) -> tuple[str | ReplyFailed, Plan | None]:
    """The kernel, or the first instance of a template, whose plan then contains the template."""
    if plan is None:
        return source, plan
    try:
        template = parse_template(source, language.templates)
    except InputError as error:
        return ReplyFailed("template", str(error)), plan
    if template is None:
        return source, plan
    values = template.planned(template.first)
    parameters = {**plan.parameters, **values, "template": source}
    return template.instance(template.first), replace(plan, parameters=parameters)
