"""An experiment's results as text: cells of its table, CSV files, and one HTML page."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from html import escape

from tilewright.core.budget_text import describe_budget
from tilewright.experiments.definition import Experiment
from tilewright.experiments.running import CellResult, Point
from tilewright.experiments.table import Row
from tilewright.report.step_chart import COLOURS, Series, step_chart

HEAD = (
    *("arm", "runs", "speedup (95 %)", "worst", "over baseline (95 %)", "spread"),
    *("to its best", "evaluations", "calls", "USD", "seconds"),
)
PRINTED = (HEAD[:6], (HEAD[0], *HEAD[6:]))
"""The columns of the two tables on a terminal, because one table would not fit 80 columns."""
_AXES: tuple[tuple[str, Callable[[Point], float]], ...] = (
    ("evaluations", lambda point: point.evaluations),
    ("calls", lambda point: point.calls),
    ("US dollars", lambda point: point.usd),
    ("seconds", lambda point: point.seconds),
)
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{name}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
body {{ font: 14px system-ui, sans-serif; margin: 2em; color: #222; max-width: 1120px; }}
svg {{ margin: 0 1em 1em 0; }} text {{ font-size: 11px; fill: #444; }}
.title {{ font-size: 13px; font-weight: 600; fill: #222; }} .key span {{ margin-right: 1.5em; }}
table {{ border-collapse: collapse; margin: 1em 0; }} td, th {{ padding: 3px 9px; text-align: right;
border-bottom: 1px solid #ddd; }} td:first-child, th:first-child {{ text-align: left; }}
</style></head><body>
<h1>{name}</h1>
<p>{about}</p>
<p>{caption}</p>
<table>{table}</table>
<p class="key">{key}</p>
<p>Best speedup over the starting kernel so far: the line is the median over seeds, and the
shaded area is the range of the seeds.</p>
{charts}
</body></html>
"""


def cells_of(row: Row) -> dict[str, str]:
    """The texts of a row by the columns of `HEAD`."""
    to_best = "-" if row.evaluations_to is None else f"{row.evaluations_to:g}"
    cells = [
        row.arm,
        f"{row.runs - row.failed} of {row.runs}" if row.failed else str(row.runs),
        _times(row.speedup) + _interval(row.low, row.high),
        _times(row.worst),
        _times(row.ratio, 3) + _interval(row.ratio_low, row.ratio_high, 3),
        "-" if row.spread is None else f"{100 * row.spread:.1f} %",
        f"{to_best} ({row.reached}/{row.pairs})",
        f"{row.evaluations:g}"
        if row.evaluations == int(row.evaluations)
        else f"{row.evaluations:.1f}",
        f"{row.calls:.1f}" if row.calls else "-",
        f"{row.usd:.2f}" if row.usd else "-",
        f"{row.seconds:.0f}",
    ]
    return dict(zip(HEAD, cells, strict=True))


def caption(experiment: Experiment, results: Sequence[CellResult]) -> str:
    """Sentences that explain the numbers."""
    kinds = " and ".join(sorted({f"{r.quantity} {r.unit}" for r in results if r.unit}))
    matrix = ", ".join(
        f"{len(names)} {word}" if len(names) > 1 else f"1 {word.removesuffix('s')}"
        for names, word in ((experiment.workloads, "workloads"), (experiment.seeds, "seeds"))
    )
    budget = describe_budget(experiment.budget)
    return (
        f"{kinds or 'nothing measured'}; {matrix}, each run with {budget} at most. Speedups are "
        "over the starting kernel, geometric means over workloads and seeds. The intervals cover "
        'other seeds, but not other workloads. "To its best" is the median number of evaluations '
        f"until a run was within 1 % of the result of {experiment.baseline} with the same workload "
        "and seed; in parentheses are the number of runs that reached it and the number of all "
        "runs."
    )


def table_csv(rows: Sequence[Row]) -> str:
    """The table with all its numbers."""
    return _csv([f.name for f in fields(Row)], [list(asdict(row).values()) for row in rows])


def cells_csv(results: Sequence[CellResult]) -> str:
    """One line for each run."""
    names = [f.name for f in fields(CellResult) if f.name != "points"]
    rows = [[*(getattr(r, name) for name in names), r.speedup] for r in results]
    return _csv([*names, "speedup"], rows)


def points_csv(results: Sequence[CellResult]) -> str:
    """One line for each evaluation of each run, with the amounts spent and the best result so
    far.
    """
    names = [f.name for f in fields(Point)]
    rows = [
        [r.workload, r.arm, r.seed, *(getattr(point, name) for name in names)]
        for r in results
        for point in r.points
    ]
    return _csv(["workload", "arm", "seed", *names], rows)


def page(experiment: Experiment, rows: Sequence[Row], results: Sequence[CellResult]) -> str:
    """The HTML page, which loads no other files."""
    head = "".join(f"<th>{escape(name)}</th>" for name in HEAD)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells_of(row).values()) + "</tr>"
        for row in rows
    )
    key = "".join(
        f'<span style="color:{COLOURS[n % len(COLOURS)]}">&#9632; {escape(row.arm)}</span>'
        for n, row in enumerate(rows)
    )
    return _PAGE.format(
        name=escape(experiment.name),
        about=escape(experiment.about),
        caption=escape(caption(experiment, results)),
        table=f"<tr>{head}</tr>{body}",
        key=key,
        charts="\n".join(_charts(experiment, results)),
    )


def _charts(experiment: Experiment, results: Sequence[CellResult]) -> list[str]:
    """For each workload, a chart for each kind of amount that was spent."""
    charts = []
    for workload in experiment.workloads:
        mine = [result for result in results if result.workload == workload]
        for name, spent in _AXES:
            if any(spent(point) for result in mine for point in result.points):
                series = [
                    Series(arm, tuple(_curve(r, spent) for r in mine if r.arm == arm))
                    for arm in experiment.arms
                ]
                charts.append(step_chart(workload, name, "speedup", series))
    return charts


def _curve(result: CellResult, spent: Callable[[Point], float]) -> tuple[tuple[float, float], ...]:
    start = result.start or 0.0
    return tuple((spent(p), start / p.best) for p in result.points if p.best)


def _csv(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([["" if value is None else value for value in row] for row in rows])
    return file.getvalue()


def _times(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}x"


def _interval(low: float | None, high: float | None, digits: int = 2) -> str:
    return "" if low is None or high is None else f" ({low:.{digits}f}-{high:.{digits}f})"
