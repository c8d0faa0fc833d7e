"""The final table of a run, which compares the starting kernel with the best kernel and lists the
steps of the winning schedule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from tilewright.cli.nothing_improved import reasons
from tilewright.cli.options import as_started
from tilewright.cli.task_names import shown_task
from tilewright.core.text import counted
from tilewright.report.markdown import first_sentence
from tilewright.report.queries import report_view
from tilewright.report.text import duration, last_line, number, percent, ratio, words
from tilewright.search.summary import unconfirmed_words

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tilewright.core.records import Baseline, History, LeftAlone, Measured, RunRecord, Trial
    from tilewright.search.summary import Summary

LEFT_S = 1.0
"""Seconds of a budget that remain at the end of a run from which on the summary explains them."""
SHOWN = 5
"""Maximum number of listed places in the code that were not rewritten, and of listed unconfirmed
candidates.
"""


def summary_lines(
    summary: Summary, history: History, full: bool = False
) -> Iterator[RenderableType]:
    """The lines that are printed at the end of a search, from the headline to the reason why the
    search ended.

    Plans are shortened to their first sentence unless `full`.
    """
    yield Text(headline(summary), style="bold")
    yield ""
    if summary.baseline_latency is not None:
        yield search_comparison(summary, history)
        if summary.best_precision:
            yield Text(f"Precision of the best kernel's results: {summary.best_precision}.")
        yield ""
    if summary.is_out_of_time:
        yield Text(unconfirmed_result(summary), style="yellow")
        yield ""
    for warning in summary.warnings:
        yield Text(f"warning: {warning}", style="yellow")
        yield ""
    if summary.best_candidate_id and len(history.lineage(summary.best_candidate_id)) > 1:
        yield schedule(summary.best_candidate_id, history, full)
        yield ""
    for line in reasons(summary, history):
        yield Text(line)
    for line in left_alone_lines(summary.left_alone):
        yield Text(line)
    for line in unconfirmed_lines(summary.unconfirmed):
        yield Text(line)
    if summary.confirmed:
        yield Text(
            "The best kernel was built again in a new process, and its results are also correct "
            "on new inputs."
        )
    cached = f" ({summary.cached_evaluations} from the cache)" if summary.cached_evaluations else ""
    yield Text(
        f"{counted(summary.evaluations, 'evaluation')}{cached} in "
        f"{duration(summary.wall_s)}, seed {summary.seed}. {_end(summary)}"
    )


def _end(summary: Summary) -> str:
    """Why the search ended, or that it has not."""
    if not summary.stop_reason:
        return f"The run is {summary.status}."
    if summary.is_out_of_time:
        return "The time limit of the budget was reached."
    ended = f"The search ended because {summary.stop_reason}."
    if summary.unused_wall_s < LEFT_S:
        return ended
    rest = f"The last {duration(summary.unused_wall_s)}, reserved for confirming the best kernel,"
    return f"{ended} {rest} were not needed."


def unconfirmed_result(summary: Summary) -> str:
    """Says why the result of a run whose time ended is not confirmed, and how to confirm it."""
    return as_started(
        f"warning: this result is not confirmed, because {summary.stop_reason}. `tilewright runs "
        f"resume {summary.run_id}` confirms it without a time limit."
    )


def failed_step_lines(logs: Sequence[str]) -> Iterator[RenderableType]:
    """A warning if steps of proposers failed; `logs` are their errors, the latest last."""
    if logs:
        one = len(logs) == 1
        some = "1 step of a proposer" if one else f"{len(logs)} steps of proposers"
        yield Text(
            f"warning: {some} failed, and the search continued without the kernels of "
            f"{'this step' if one else 'these steps'}. The last error: {last_line(logs[-1])}",
            style="yellow",
        )
        yield ""


def left_alone_lines(parts: Sequence[LeftAlone]) -> Iterator[str]:
    """The code that was not rewritten: the first few places, and the number of others."""
    if parts:
        yield "The built-in rewriter does not understand this code and did not change it:"
        for part in parts[:SHOWN]:
            yield f"  line {part.line}: {part.text} ({part.reason})"
        if len(parts) > SHOWN:
            yield f"  and {len(parts) - SHOWN} more places, which --json and the report list"
        yield ""


def unconfirmed_lines(trials: Sequence[Trial]) -> Iterator[str]:
    """The candidates that were not confirmed: their number, and the reasons for the fastest of
    them.
    """
    if trials:
        yield f"{unconfirmed_words(trials)}:"
        for trial in trials[-SHOWN:]:
            log = getattr(trial.outcome, "log", "")
            yield f"  trial {trial.index}: {next(iter(log.splitlines()), '')}"
        if len(trials) > SHOWN:
            yield f"  and {len(trials) - SHOWN} more, which --json and the report list"
        yield ""


def headline(summary: Summary) -> str:
    """One line: how much faster the best kernel is, or why there is no result."""
    task = shown_task(summary.workload)
    if summary.speedup is None:
        return f"{task}: no kernel could be measured ({words(summary.verdict)})"
    if not summary.is_faster:
        nothing = f"{task}: no kernel was found that is faster than the starting kernel"
        if summary.speedup > 1:
            nothing += (
                f" (a difference of {ratio(summary.speedup)} is within the measurement noise)"
            )
        if summary.unconfirmed:
            return f"{nothing}; {unconfirmed_words(summary.unconfirmed)}"
        return nothing
    late = " (not confirmed)" if summary.is_out_of_time else ""
    return f"{task}: {ratio(summary.speedup)} as fast as the starting kernel{late}"


def search_comparison(summary: Summary, history: History) -> Table:
    """The starting kernel, the target's baselines and the best kernel, and how they compare."""
    first_trial = history.baseline
    start = first_trial.candidate.id if first_trial else ""
    of_start = first_trial.precision if first_trial else ""
    same = [b.name for b in summary.baselines if b.candidate_id == start]
    first = f"starting kernel ({same[0]})" if same else "starting kernel"
    others = [b for b in summary.baselines if b.candidate_id != start]
    rows: list[tuple[str, float | None, float | None, str]] = [
        (first, summary.baseline_latency, summary.baseline_utilization, of_start),
        *((b.name, b.latency, b.utilization, b.precision) for b in others),
        ("best kernel", summary.best_latency, summary.best_utilization, summary.best_precision),
    ]
    measure = f"{summary.quantity} {summary.unit}"
    classes = _differing([precision for *_, precision in rows])
    table = _comparison(measure, "speedup", "best vs. this one", classes=classes)
    for name, latency, utilization, precision in rows:
        table.add_row(
            name,
            number(latency) if latency is not None else "failed",
            percent(utilization),
            *[precision or "-"] * classes,
            ratio(_ratio(summary.baseline_latency, latency)),
            ratio(_ratio(latency, summary.best_latency)),
            style="green" if name == "best kernel" else None,
        )
    return table


def comparison(baselines: Sequence[Baseline], outcome: Measured) -> Table:
    """The target's baselines, and how much faster than each a kernel with this outcome is."""
    classes = _differing([outcome.verdict.precision, *(b.precision for b in baselines)])
    table = _comparison(f"{outcome.quantity} {outcome.unit}", "this kernel vs. it", classes=classes)
    for baseline in baselines:
        table.add_row(
            baseline.name,
            number(baseline.latency) if baseline.latency is not None else "failed",
            percent(baseline.utilization),
            *[baseline.precision or "-"] * classes,
            ratio(_ratio(baseline.latency, outcome.latency)),
        )
    return table


def _differing(precisions: Sequence[str]) -> bool:
    """Whether kernels have different classes of precision, so that a table must name them."""
    return len(set(filter(None, precisions))) > 1


def _comparison(measure: str, *ratios: str, classes: bool) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for heading in (measure, "utilisation", *["precision"] * classes, *ratios):
        table.add_column(heading, justify="right")
    return table


def _ratio(before: float | None, after: float | None) -> float | None:
    return before / after if before and after else None


def schedule(best_id: str, history: History, full: bool = False) -> Table:
    """The steps from the starting kernel to the best one, with the speedup after each.

    Each step shows the first sentence of its plan, or with `full` the whole plan.
    """
    table = Table(box=None, pad_edge=False)
    table.add_column("step", justify="right")
    for heading in ("speedup", "this step", "expected"):
        table.add_column(heading, justify="right")
    table.add_column("what was done", overflow="fold")
    chain = history.lineage(best_id)
    start = chain[0].latency
    for step, trial in enumerate(chain):
        plan = trial.candidate.plan
        speedup = start / trial.latency if start and trial.latency else None
        what = Text("starting kernel")
        if plan:
            said = plan.text if full else first_sentence(plan.text)
            what = Text.assemble((words(plan.option), "bold"), ": ", said)
        gain = _ratio(chain[step - 1].latency, trial.latency) if step else None
        expected = plan.expected_gain if plan else None
        table.add_row(str(step), ratio(speedup), ratio(gain), ratio(expected), what)
    return table


def trial_table(run: RunRecord, history: History) -> Table:
    """All trials, with the expected and the measured speedup over the parent."""
    table = Table(box=None, pad_edge=False)
    for heading in ("trial", "parent", "expected", "measured"):
        table.add_column(heading, justify="right")
    table.add_column("outcome", overflow="fold")
    table.add_column("what was done", overflow="fold")
    for trial in report_view(run, history).trials:
        table.add_row(
            str(trial.index),
            "-" if trial.parent is None else str(trial.parent),
            ratio(trial.expected_gain),
            ratio(trial.gain),
            trial.outcome,
            Text(trial.plan or "starting kernel"),
        )
    return table
