"""A run as a small table for notebooks."""

from __future__ import annotations

from html import escape

from tilewright.core.records import History
from tilewright.report.text import duration, gain, number, percent, words
from tilewright.search.summary import Summary

MOST_STEPS = 12
"""Number of steps of the winning schedule that are shown, which are the last ones."""


def run_html(summary: Summary, history: History) -> str:
    """The result, followed by the steps that led to it. The HTML is self-contained, and all text is
    escaped.
    """
    rows = [("run", f"{summary.run_id}, {summary.status}"), ("target", summary.target)]
    if summary.best_latency is not None and summary.baseline_latency is not None:
        kind = f"{summary.quantity} {summary.unit}"
        rows += [
            ("starting kernel", f"{number(summary.baseline_latency)} {kind}"),
            ("best kernel", f"{number(summary.best_latency)} {kind}"),
            ("speedup", gain(summary.speedup, summary.noise)),
            ("utilisation", percent(summary.best_utilization or 0.0)),
            ("confirmed on fresh inputs", "yes" if summary.confirmed else "no"),
        ]
    rows.append(("evaluations", f"{summary.evaluations} in {duration(summary.wall_s)}"))
    if summary.stop_reason:
        rows.append(("ended by", summary.stop_reason))
    head = "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in rows)
    return (
        f"<div><b>{escape(summary.workload)}</b><table>{head}</table>{_steps_html(history)}</div>"
    )


def _steps_html(history: History) -> str:
    best = history.best
    if best is None or best.index == 0:
        return ""
    rows = []
    for trial in history.lineage(best.candidate.id)[1:][-MOST_STEPS:]:
        plan = trial.candidate.plan
        what = words(plan.option) if plan else trial.candidate.proposer
        text = plan.text.partition(". ")[0] if plan else ""
        latency = number(trial.latency) if trial.latency is not None else ""
        cells = (str(trial.index), what, text, latency)
        rows.append("".join(f"<td>{escape(cell)}</td>" for cell in cells))
    table = "".join(f"<tr>{row}</tr>" for row in rows)
    header = "<tr><th>trial</th><th>change</th><th>what was done</th><th>latency</th></tr>"
    return f"<table>{header}{table}</table>"
