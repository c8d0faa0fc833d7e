"""The pages, each of which takes a request and returns HTML, JSON or CSV. They run in threads."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse

from tilewright.core.errors import InputError, UnknownNameError
from tilewright.core.records import Cause, KernelLanguage, Measured, RunRecord, TargetBrief
from tilewright.core.tasks import brief_of
from tilewright.report.breakdown import cause_bars, cause_groups
from tilewright.report.diffs import unified_diff
from tilewright.report.pages import LEGEND, environment, highlighted
from tilewright.report.tree import beam_tree, drawn_trials
from tilewright.search.event_records import spreadsheet_row, trial_record
from tilewright.serve.curves import curve_charts, curve_colours
from tilewright.serve.experiments import arms_of
from tilewright.serve.log import sentence
from tilewright.serve.run_updates import axes_after, progress_text, rows_after
from tilewright.serve.trials import LiveTrials, option_rows

if TYPE_CHECKING:
    from starlette.requests import Request

    from tilewright.serve.axes import LiveAxes
    from tilewright.serve.site import Site

LARGEST_DIFF = 200_000
LONGEST_NUMBER = 9
"""Maximum number of digits of a trial's number, so that a database can represent it."""
TABLE_TRIALS = 1_000
"""Number of trials that a table reads at a time, so that it never loads a whole long run."""
CSV_CHUNK = 1 << 16
"""Number of characters of a table that are sent at a time."""
PARTS = ("result", "tree", "menu", "log")


def runs_page(site: Site, request: Request) -> Response:
    """All runs, filtered by the parameters `q` (text), `status` and `tag` of the address."""
    asked = {name: request.query_params.get(name, "").strip() for name in ("q", "status", "tag")}
    overviews = site.project.overview.runs()
    rows = [(found, site.project.status(found.run)) for found in overviews]
    shown = [
        (found, status)
        for found, status in rows
        if (not asked["status"] or status == asked["status"])
        and (not asked["tag"] or asked["tag"] in found.label.tags)
        and all(
            word in f"{found.run.id} {found.run.task} {found.label.text}".lower()
            for word in asked["q"].lower().split()
        )
    ]
    return _page(
        site,
        "runs.html.j2",
        rows=shown,
        total=len(rows),
        asked=asked,
        statuses=sorted({status for _, status in rows}),
        tags=sorted({tag for found in overviews for tag in found.label.tags}),
        folder=str(site.project.folder.resolve()),
    )


def run_page(site: Site, request: Request) -> Response:
    """The page of one run, whose script requests the rows of its trials."""
    run = site.project.record(request.path_params["run"])
    trials = site.project.trials(run.id)
    return _page(
        site,
        "run.html.j2",
        label=site.project.overview.label(run.id),
        run=run,
        news=progress_text(site, run, trials),
        unit=_unit(trials, site, run),
        parts=dict.fromkeys(PARTS, ""),
    )


def rows(site: Site, request: Request) -> Response:
    """The trials of a run for chart and table, and the rows of the other axes."""
    live = site.project.live(site.project.record(request.path_params["run"]).id)
    return JSONResponse({**rows_after(live.trials, -1), "axes": axes_after(live.axes, 0)})


def part(site: Site, request: Request) -> Response:
    """A section of a run's page, as HTML."""
    name = request.path_params["part"]
    if name not in PARTS:
        raise UnknownNameError("part", name, PARTS)
    run = site.project.record(request.path_params["run"])
    trials = site.project.trials(run.id)
    values: dict[str, Any] = {"run": run}
    if name == "result":
        view = site.project.result(run, trials)
        values.update(view=view, bars=cause_bars(view.baseline, view.best, _causes(brief_of(run))))
    elif name == "tree":
        shown = drawn_trials(trials.views)
        values.update(tree=beam_tree(shown), total=trials.total, legend_entries=LEGEND)
    elif name == "menu":
        values.update(options=option_rows(trials.views), templates=trials.templates())
        values["left_out"] = trials.left_out
    else:
        values["log"] = [
            (line.at, sentence(line.kind, line.data)) for line in site.project.log(run.id)
        ]
    return HTMLResponse(_render(f"{name}.html.j2", **values))


def trial_page(site: Site, request: Request) -> Response:
    """One candidate, and its differences from its parent or from another trial (`against`)."""
    run = site.project.record(request.path_params["run"])
    trials = site.project.trials(run.id)
    trial = site.project.trial(run.id, _number(request.path_params["trial"]))
    view, lineage = site.project.lineage(run.id, trials, trial)
    against = _index(request.query_params.get("against", ""), view.parent, trials.total)
    diff: Sequence[str] = ()
    if against is not None:
        other = site.project.trial(run.id, against)
        diff = unified_diff(other.candidate.source, trial.candidate.source, LARGEST_DIFF)
    outcome, brief = trial.outcome, brief_of(run)
    return _page(
        site,
        "trial.html.j2",
        run=run,
        trial=trial,
        view=view,
        outcome=outcome,
        measured=outcome if isinstance(outcome, Measured) else None,
        groups=cause_groups(getattr(outcome, "breakdown", {}), _causes(brief)),
        lineage=lineage,
        children=[v for v in trials.views if v.parent == trial.index],
        source_html=highlighted(trial.candidate.source, _language(brief)),
        against=against,
        diff=diff,
    )


def source(site: Site, request: Request) -> Response:
    """A candidate's source as a download, so that a browser does not show it as a page."""
    run = site.project.record(request.path_params["run"])
    trial = site.project.trial(run.id, _number(request.path_params["trial"]))
    language = _language(brief_of(run))
    suffix = language.suffix if language else ".txt"
    name = f"{run.id}-{trial.index}{suffix}"
    return Response(trial.candidate.source, headers=_as_file("text/plain; charset=utf-8", name))


def trials_csv(site: Site, request: Request) -> Response:
    """The trials in the format of `tilewright runs export`, sent while they are read."""
    run = site.project.record(request.path_params["run"])
    live = site.project.live(run.id)
    rows = _table_rows(site, run, live.trials.total, live.axes)
    first = next(rows, None)
    lines = _csv_lines(first, rows) if first is not None else iter(())
    return StreamingResponse(lines, headers=_as_file("text/csv; charset=utf-8", f"{run.id}.csv"))


def _table_rows(
    site: Site, run: RunRecord, count: int, axes: LiveAxes
) -> Iterator[dict[str, object]]:
    ended = {iteration: (seconds, usd) for iteration, seconds, usd in axes.rows}
    for start in range(0, count, TABLE_TRIALS):
        wanted = range(start, min(start + TABLE_TRIALS, count))
        for trial in site.project.overview.whole_trials(run.id, wanted):
            row = {"run": run.id, "workload": run.task, **trial_record(trial)}
            seconds, usd = ended.get(trial.iteration, (None, None))
            row["iteration_ended_s"] = seconds
            row["spent_usd"] = usd if axes.has_costs else None
            yield row


def _csv_lines(first: dict[str, object], others: Iterator[dict[str, object]]) -> Iterator[str]:
    """The lines of a table with the columns of its first row, in blocks of many lines."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(first))
    writer.writeheader()
    for row in chain([first], others):
        writer.writerow(spreadsheet_row(row))
        if text.tell() > CSV_CHUNK:
            yield text.getvalue()
            text.seek(0)
            text.truncate()
    yield text.getvalue()


def comparison_page(site: Site, request: Request) -> Response:
    """The comparison of the runs that the parameters `run` name."""
    names = list(dict.fromkeys(request.query_params.getlist("run")))
    if len(names) > 12:
        raise InputError(f"{len(names)} runs are too many to compare. Choose up to 12.")
    found = [site.project.run(name) for name in names]
    lives = [site.project.live(one.run.id) for one in found]
    views = [
        site.project.result(one.run, live.trials) for one, live in zip(found, lives, strict=True)
    ]
    return _page(
        site,
        "compare.html.j2",
        found=found,
        views=views,
        differences=_differences([one.run for one in found]),
        charts=curve_charts([(one.run.id, live) for one, live in zip(found, lives, strict=True)]),
        colours=curve_colours([one.run.id for one in found]),
        all_runs=site.project.overview.runs(),
    )


def experiments_page(site: Site, request: Request) -> Response:
    """The comparison of different settings of the search for the same workload."""
    return _page(site, "experiments.html.j2", workloads=arms_of(site.project.overview.runs()))


def message_page(site: Site, title: str, sentence: str, status: int) -> Response:
    """A page with one message."""
    return _page(site, "message.html.j2", status, title=title, sentence=sentence)


def _unit(trials: LiveTrials, site: Site, run: RunRecord) -> str:
    """The quantity and the unit of this run's latencies, for instance "simulated cycles"."""
    if trials.best is None:
        return "latency"
    found = site.project.trial(run.id, trials.best.index).outcome
    return f"{found.quantity} {found.unit}" if isinstance(found, Measured) else "latency"


def _differences(runs: Sequence[RunRecord]) -> list[tuple[str, list[str]]]:
    """Settings and versions in which runs differ."""
    rows = []
    for side in ("settings", "versions"):
        tables = [getattr(run, side) for run in runs]
        for name in sorted({name for table in tables for name in table}):
            values = [_short(table.get(name, "-")) for table in tables]
            if len(set(values)) > 1:
                rows.append((name, values))
    return rows


def _short(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _language(brief: TargetBrief | None) -> KernelLanguage | None:
    return brief.language if brief else None


def _causes(brief: TargetBrief | None) -> Sequence[Cause]:
    return brief.causes if brief else ()


def _index(asked: str, otherwise: int | None, count: int) -> int | None:
    if not asked:
        return otherwise
    if not asked.isdecimal() or len(asked) > LONGEST_NUMBER or int(asked) >= count:
        raise InputError(
            f"there is no trial {asked!r} to compare with. Give one from 0 to {count - 1}."
        )
    return int(asked)


def _number(text: str) -> int:
    """The number of a trial in an address; `UnknownNameError` if it is not valid."""
    if not (text.isascii() and text.isdecimal()) or len(text) > LONGEST_NUMBER:
        raise UnknownNameError("trial", text[:20])
    return int(text)


def _as_file(kind: str, name: str) -> dict[str, str]:
    return {"content-type": kind, "content-disposition": f'attachment; filename="{name}"'}


def _page(site: Site, template: str, status_code: int = 200, **values: Any) -> Response:
    html = _render(template, csrf=site.access.csrf_token(), read_only=site.read_only, **values)
    return HTMLResponse(html, status_code)


def _render(template: str, **values: Any) -> str:
    return environment("tilewright.serve").get_template(template).render(**values)
