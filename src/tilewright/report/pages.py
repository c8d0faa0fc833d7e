"""The templates of pages, which escape all inserted text, and syntax colouring of kernels."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from tilewright.core.records import KernelLanguage
from tilewright.report import text
from tilewright.report.costs import usd_text
from tilewright.report.markdown import as_html, first_sentence
from tilewright.report.views import TrialState

if TYPE_CHECKING:
    from jinja2 import Environment

_HIGHLIGHT_LIMIT = 400_000
"""Number of characters above which a kernel is not coloured, because this would take seconds."""

LEGEND: tuple[tuple[TrialState, bool, str], ...] = (
    ("start", False, "starting kernel"),
    ("kept", True, "step of the winning schedule"),
    ("kept", False, "faster than its parent"),
    ("rejected", False, "correct, but not faster"),
    ("stopped", False, "stopped early, slower than its parent"),
    ("unconfirmed", False, "unconfirmed"),
    ("failed", False, "failed to build or check"),
)
"""The legend of trials: state, whether the trial is a step of the winning schedule, and the
text.
"""


@cache
def environment(*packages: str) -> Environment:
    """The templates in `web/` of these packages, followed by those of the report. Inserted text is
    escaped.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    made = Environment(
        loader=ChoiceLoader([PackageLoader(p, "web") for p in (*packages, "tilewright.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        number=text.number,
        gain=text.gain,
        ratio=text.ratio,
        usd=usd_text,
        percent=text.percent,
        duration=text.duration,
        moment=text.moment,
        words=text.words,
        diff_class=text.diff_class,
        markdown=lambda plan: Markup(as_html(plan)),
        first_sentence=first_sentence,
    )
    return made


def web_file(name: str) -> str:
    """A style or script of the report."""
    return resources.files("tilewright.report").joinpath("web", name).read_text(encoding="utf-8")


def highlighted(source: str, language: KernelLanguage | None) -> str:
    """A kernel as HTML spans; Pygments escapes the text."""
    from markupsafe import Markup, escape
    from pygments import highlight  # type: ignore[import-untyped]
    from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]

    if language is None or len(source) > _HIGHLIGHT_LIMIT:
        return escape(source)
    lexer = get_lexer_by_name(language.lexer)
    return Markup(highlight(source, lexer, HtmlFormatter(nowrap=True)))


@cache
def code_styles() -> str:
    """Pygments' classes for a light and a dark page."""
    from pygments.formatters import HtmlFormatter

    def style(name: str) -> str:
        rules = HtmlFormatter(style=name).get_token_style_defs(".code")
        return "\n".join(rule for rule in rules if "border" not in rule)

    dark = f"@media screen and (prefers-color-scheme: dark) {{\n{style('github-dark')}\n}}\n"
    return style("default") + "\n" + dark
