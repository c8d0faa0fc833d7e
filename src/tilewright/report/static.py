"""Renders a run as one HTML file that loads no other files.

Kernels, plans and logs are untrusted text. The template escapes them, the script receives them only
as compressed JSON, and the content security policy allows only the report's own script.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from tilewright.core.records import (
    Baseline,
    CallRecord,
    History,
    LeftAlone,
    RunRecord,
    TargetBrief,
)
from tilewright.core.run_notes import AgentWork
from tilewright.core.transcripts import Transcript
from tilewright.report import text
from tilewright.report.breakdown import cause_bars
from tilewright.report.charts import speedup_chart
from tilewright.report.markdown import first_sentence
from tilewright.report.pages import LEGEND, code_styles, environment, highlighted, web_file
from tilewright.report.queries import report_view
from tilewright.report.tree import beam_tree, drawn_trials
from tilewright.report.turns import turns_view
from tilewright.report.views import ReportView, TrialView
from tilewright.storage.sampling import Sample


def render_report(
    run: RunRecord,
    history: History,
    command: str,
    baselines: Sequence[Baseline] = (),
    left_alone: Sequence[LeftAlone] = (),
    calls: Sequence[CallRecord] = (),
    brief: TargetBrief | None = None,
    transcripts: Sequence[Transcript] = (),
    agents: Sequence[AgentWork] = (),
    sample: Sample | None = None,
) -> str:
    """The whole HTML document.

    `command` is the command line of the run, `baselines` are the kernels with which it is compared,
    `left_alone` is the code of the starting kernel that was not rewritten, `calls` are the calls to
    models, `transcripts` the proposals in turns, and `agents` the work of agents. For a very long
    run, `history` contains only the trials of a `sample`. Without the target's `brief`, the best
    kernel is not coloured, and the meanings of causes are missing.
    """
    view = report_view(run, history, baselines, left_alone, calls, sample)
    style = web_file("report.css") + code_styles()
    script = web_file("report.js")
    page = environment().get_template("report.html.j2")
    return page.render(
        view=view,
        turns=turns_view(transcripts, agents, history),
        command=command,
        chart=speedup_chart(view.trials),
        tree=beam_tree(drawn_trials(view.trials) if view.is_sample else view.trials),
        legend_entries=LEGEND,
        bars=cause_bars(view.baseline, view.best, brief.causes if brief else ()),
        packed_trials=_packed([trial_data(trial, view) for trial in view.trials]),
        best_html=highlighted(view.best_source, brief.language if brief else None),
        settings=json.dumps(dict(view.settings), indent=1, sort_keys=True, default=str),
        style=style,
        script=script,
        style_hash=_policy_hash(style),
        script_hash=_policy_hash(script),
    )


def trial_data(trial: TrialView, view: ReportView) -> dict[str, Any]:
    """The data that the page shows for a selected trial: numbers of trials, texts, and lists of
    texts.
    """
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
    facts += text.measurements(trial.details)
    facts.append(("evaluated in", "cache" if trial.cached else text.duration(trial.wall_s)))
    return {
        "index": trial.index,
        "name": trial.name,
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


def _packed(data: object) -> str:
    """The data as JSON, compressed, in letters and digits that mean nothing in HTML.

    Trials of one run resemble each other, so those of a long run take less than a tenth of their
    size.
    """
    packed = gzip.compress(json.dumps(data, separators=(",", ":")).encode(), mtime=0)
    return base64.b64encode(packed).decode()


def _policy_hash(inline: str) -> str:
    """The hash with which the content security policy allows an inline script or style."""
    digest = hashlib.sha256(inline.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
