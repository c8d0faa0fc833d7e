"""The updates that the page of a run receives, which contain only new data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.report import text
from tilewright.report.views import TrialView

if TYPE_CHECKING:
    from tilewright.core.records import RunRecord
    from tilewright.serve.axes import LiveAxes
    from tilewright.serve.site import Site
    from tilewright.serve.trials import LiveTrials


@dataclass
class PageState:
    """The data that a run's page has: the number of trials, and of rows of its axes."""

    trials: int = 0
    axes: int = 0
    axes_generation: int = 0


def run_update(site: Site, run_id: str, told: PageState) -> dict[str, Any]:
    """The update for a run's page: the data that it does not have, and the progress of the run.

    `told` describes the data of the page, and is updated.
    """
    run = site.project.record(run_id)
    live = site.project.live(run_id)
    if told.axes_generation != live.axes.generation:
        told.axes_generation, told.axes = live.axes.generation, 0
    news = {
        **rows_after(live.trials, told.trials - 1),
        "text": progress_text(site, run, live.trials),
        "axes": axes_after(live.axes, told.axes),
    }
    told.trials, told.axes = news["trials"], told.axes + len(news["axes"]["rows"])
    return news


def rows_after(trials: LiveTrials, last: int) -> dict[str, Any]:
    """The rows after the row `last`. If earlier rows have changed, `generation` differs."""
    first = max(0, last + 1 - trials.left_out) if last >= 0 else 0
    causes = trials.causes[first:]
    views = trials.views[first : first + len(causes)]
    return {
        "trials": len(views) + first + trials.left_out,
        "rows": [_row(view, cause) for view, cause in zip(views, causes, strict=True)],
        "winning": trials.winning,
        "generation": trials.generation,
    }


def axes_after(axes: LiveAxes, first: int) -> dict[str, Any]:
    """The rows of the axes beginning with `first`, which replace the rows of the page from this
    position on.
    """
    return {"first": first, "rows": axes.rows[first:], "has_costs": axes.has_costs}


def _row(view: TrialView, cause: str) -> list[object]:
    return [
        view.index,
        view.iteration,
        view.parent,
        view.state,
        round(view.speedup, 4) if view.speedup is not None else None,
        view.latency,
        round(view.gain, 4) if view.gain is not None else None,
        view.option,
        view.proposer,
        cause,
        view.failure,
    ]


def progress_text(site: Site, run: RunRecord, trials: LiveTrials) -> dict[str, str]:
    """The progress of a run, by the names of the page's elements."""
    best, views = trials.best, trials.views
    start = views[0].latency if views else None
    counts = f"{text.number(trials.measured)} measured"
    if trials.left_out:
        counts += f", {text.number(len(views))} are shown"
    else:
        counts += f", {trials.stopped} stopped early, {trials.failed} failed"
    return {
        "status": site.project.status(run),
        "reason": run.stop_reason,
        "speedup": text.gain(best.speedup, views[0].noise + best.noise) if best else "-",
        "latency": text.number(best.latency if best else None),
        "start": text.number(start) if start else "not measured",
        "utilization": text.percent(best.utilization if best else None),
        "evaluations": text.number(trials.total),
        "counts": f"{counts}; {text.duration(run.wall_s)}",
        "best": f"trial {best.index}" if best else "",
    }
