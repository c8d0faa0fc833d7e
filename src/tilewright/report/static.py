"""Renders a run as one HTML file: everything inlined, nothing fetched, nothing of it trusted.

Kernels, plans and logs are foreign text. They are escaped by the template, reach the script as
JSON only, and a content security policy lets no script run but the report's own.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib import resources
from typing import Any

from tilewright.core.records import (
    Baseline,
    CallRecord,
    History,
    KernelLanguage,
    LeftAlone,
    RunRecord,
)
from tilewright.core.run_notes import AgentWork
from tilewright.core.transcripts import Transcript
from tilewright.report import text
from tilewright.report.breakdown import cycle_bars
from tilewright.report.charts import speedup_chart
from tilewright.report.costs import usd_text
from tilewright.report.markdown import as_html, first_sentence
from tilewright.report.queries import report_view
from tilewright.report.tree import beam_tree
from tilewright.report.turns import turns_view
from tilewright.report.views import ReportView, TrialState, TrialView

_HIGHLIGHT_LIMIT = 400_000
"""Characters of a kernel above which colouring would take seconds; such a kernel is shown plain."""

_LEGEND: tuple[tuple[TrialState, bool, str], ...] = (
    ("start", False, "starting kernel"),
    ("kept", True, "step of the winning schedule"),
    ("kept", False, "faster than its parent"),
    ("rejected", False, "correct, not faster"),
    ("stopped", False, "stopped early: slower than its parent"),
    ("unconfirmed", False, "looked faster, not confirmed"),
    ("failed", False, "failed to build or check"),
)


def render_report(
    run: RunRecord,
    history: History,
    command: str,
    baselines: Sequence[Baseline] = (),
    left_alone: Sequence[LeftAlone] = (),
    calls: Sequence[CallRecord] = (),
    language: KernelLanguage | None = None,
    transcripts: Sequence[Transcript] = (),
    agents: Sequence[AgentWork] = (),
) -> str:
    """The whole HTML document.

    `command` is what a reader types to get the same run, `baselines` what it is compared with,
    `left_alone` the code of the starting kernel that was not worked on,
    `calls` what models were asked, `transcripts` what they did in turns,
    `agents` what agents did. Without its `language` the best kernel is shown uncoloured.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("tilewright.report", "web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=text.number,
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
    view = report_view(run, history, baselines, left_alone, calls)
    style = _web_file("report.css") + _code_styles()
    script = _web_file("report.js")
    return environment.get_template("report.html.j2").render(
        view=view,
        turns=turns_view(transcripts, agents, history),
        command=command,
        chart=speedup_chart(view.trials),
        tree=beam_tree(view.trials),
        legend_entries=_LEGEND,
        bars=cycle_bars(view.baseline, view.best),
        trial_data=[trial_data(trial, view) for trial in view.trials],
        best_html=_highlighted(view.best_source, language),
        settings=json.dumps(dict(view.settings), indent=1, sort_keys=True, default=str),
        style=style,
        script=script,
        style_hash=_policy_hash(style),
        script_hash=_policy_hash(script),
    )


def trial_data(trial: TrialView, view: ReportView) -> dict[str, Any]:
    """What the page shows when a trial is selected; all values are text or lists of text."""
    facts = [("outcome", trial.outcome)]
    if trial.turn is not None:
        facts.append(("made in turn", text.number(trial.turn)))
    if trial.latency is not None:
        facts.append((view.metric, text.number(trial.latency)))
    if trial.speedup is not None and trial.parent is not None:
        facts.append(("over the start", text.ratio(trial.speedup)))
    if trial.gain is not None:
        facts.append(("over its parent", text.ratio(trial.gain)))
    if trial.expected_gain is not None:
        facts.append(("expected over its parent", text.ratio(trial.expected_gain)))
    if trial.utilization is not None:
        facts.append(("utilisation", text.percent(trial.utilization)))
    facts += [(text.words(name), text.number(value)) for name, value in trial.details.items()]
    facts.append(("evaluated in", "cache" if trial.cached else text.duration(trial.wall_s)))
    return {
        "title": f"Trial {trial.index}" + (f": {text.words(trial.option)}" if trial.option else ""),
        "parent": trial.parent,
        "state": trial.state,
        "by": trial.proposer,
        "plan": trial.plan,
        "summary": first_sentence(trial.plan),
        "expected": trial.expected,
        "facts": facts,
        "breakdown": [
            (text.words(name), text.number(value), text.share(value, trial.latency))
            for name, value in sorted(trial.breakdown.items(), key=lambda item: -item[1])
        ],
        "feedback": trial.feedback,
        "warnings": trial.warnings,
        "failure": trial.failure,
        "log": trial.log,
        "diff": trial.diff,
    }


def _web_file(name: str) -> str:
    return resources.files("tilewright.report").joinpath("web", name).read_text(encoding="utf-8")


def _highlighted(source: str, language: KernelLanguage | None) -> str:
    """A kernel as HTML spans; Pygments escapes the text."""
    from markupsafe import Markup, escape
    from pygments import highlight  # type: ignore[import-untyped]
    from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]

    if language is None or len(source) > _HIGHLIGHT_LIMIT:
        return escape(source)
    lexer = get_lexer_by_name(language.lexer)
    return Markup(highlight(source, lexer, HtmlFormatter(nowrap=True)))


def _code_styles() -> str:
    """Pygments' classes for a light and a dark page."""
    from pygments.formatters import HtmlFormatter

    def style(name: str) -> str:
        rules = HtmlFormatter(style=name).get_token_style_defs(".code")
        return "\n".join(rule for rule in rules if "border" not in rule)

    dark = f"@media screen and (prefers-color-scheme: dark) {{\n{style('github-dark')}\n}}\n"
    return style("default") + "\n" + dark


def _policy_hash(inline: str) -> str:
    """The content security policy's name for an inline script or style."""
    digest = hashlib.sha256(inline.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
