"""Shows a running search: a live panel on a terminal, plain lines in a log."""

from __future__ import annotations

from rich.console import Console, Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tilewright.cli.live import LivePanel
from tilewright.cli.progress_state import Improvement, ProgressState
from tilewright.cli.task_names import shown_task
from tilewright.core.budget import Budget
from tilewright.core.budget_text import describe_budget
from tilewright.core.records import Failed, Measured, Trial
from tilewright.core.text import counted
from tilewright.report.text import duration, last_line, number, percent, ratio, words
from tilewright.search.events import (
    Evaluated,
    Event,
    IterationFinished,
    ModelsForecast,
    Noted,
    ProposalFailed,
    RunStarted,
    SchedulesReused,
)

SHOWN_IMPROVEMENTS = 8
BAR_WIDTH = 28
OPENING = "opening the workload and testing its correctness check (once per project) ..."


class Progress(LivePanel):
    """Context manager; pass its `on_event` to the search.

    On a terminal, one panel is redrawn at most four times a second and removed at the end.
    Elsewhere, each iteration and each new best kernel is printed as one line.
    """

    def __init__(self, budget: Budget, console: Console | None = None) -> None:
        self.state = ProgressState(budget)
        super().__init__(console)

    def panel(self) -> Group:
        """The state of the search."""
        return live_panel(self.state)

    def on_event(self, event: Event) -> None:
        """Update the state with one event of the search."""
        improvement = self.state.apply(event)
        if self._live is None:
            line = plain_line(self.state, event, improvement)
            if line:
                self._console.print(line, markup=False, soft_wrap=True)


def plain_line(state: ProgressState, event: Event, improvement: Improvement | None) -> str:
    """The log line of an event; empty for events that need none."""
    if isinstance(event, RunStarted):
        again = f", continued after {len(event.history)} evaluations" if len(event.history) else ""
        return f"run {event.run.id}: {shown_task(event.run.task)}{again}"
    if isinstance(event, IterationFinished):
        return (
            f"[{duration(state.wall_s)}] iteration {event.iteration} of {state.iterations}: "
            f"{_made(state)}, "
            f"{event.evaluated} evaluated{_outcomes(state)}; best {ratio(state.speedup)}"
            + (f"; {_calls(state)}" if state.calls else "")
        )
    if isinstance(event, ProposalFailed):
        return f"[{duration(state.wall_s)}] a proposer made no candidate: {last_line(event.log)}"
    if isinstance(event, ModelsForecast):
        return f"forecast: {forecast_words(state)}"
    if isinstance(event, SchedulesReused):
        return _reuse(event)
    if isinstance(event, Noted):
        return f"note: {event.text}"
    if improvement is not None:
        trial = improvement.trial
        return (
            f"[{duration(improvement.wall_s)}] evaluation {trial.index}: "
            f"{ratio(improvement.speedup)}, {_latency(trial)}: {_option(trial)}"
        )
    if isinstance(event, Evaluated) and event.trial is state.baseline:
        return f"[{duration(state.wall_s)}] starting kernel: {_latency(event.trial)}"
    if isinstance(event, Evaluated) and state.forecast is not None:
        return f"[{duration(state.wall_s)}] {_no_gain(state, event.trial)}"
    return ""


def _no_gain(state: ProgressState, trial: Trial) -> str:
    """What became of a kernel that is not the best one. Only searches with models, whose candidates
    are few and cost money, print it.
    """
    name, outcome = f"evaluation {trial.index}", trial.outcome
    if isinstance(outcome, Failed):
        at = "" if outcome.line is None else f", line {outcome.line}"
        ended = "was stopped" if outcome.kind == "slower_than_limit" else "failed"
        return f"{name} {ended} ({outcome.kind_in_words}{at}): {_option(trial)}"
    speedup = state.speedup_of(trial)
    return f"{name}: {ratio(speedup)}, {_latency(trial)}, not the best: {_option(trial)}"


def _outcomes(state: ProgressState) -> str:
    """The number of outcomes of each kind in an iteration, in brackets; empty if no evaluation has
    ended.
    """
    fastest, best, said = state.fastest_here, state.best, []
    if fastest is not None:
        noisy = best is not None and (fastest.latency or 0.0) < (best.latency or 0.0)
        text = f"fastest {ratio(state.speedup_of(fastest))}"
        said.append(f"{text}, within the noise of the best" if noisy else text)
    if state.failed_here:
        said.append(f"{state.failed_here} failed")
    return f" ({', '.join(said)})" if said else ""


def _reuse(event: SchedulesReused) -> str:
    """The schedules with which the run begins, and the option that prevents this."""
    found = ", ".join(f"{note.schedule.workload} (run {note.run})" for note in event.notes)
    chosen = any(note.chosen for note in event.notes)
    return f"the run first tries the steps that were found for {found}" + (
        "; with --no-reuse, it does not" if chosen else ""
    )


def live_panel(state: ProgressState) -> Group:
    """The panel for a terminal, with the progress of the search and its best kernel."""
    if not state.run_id:
        return Group(Text(OPENING, style="dim"))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(no_wrap=True, overflow="ellipsis")
    grid.add_row("run", Text(f"{shown_task(state.task)}  ({state.run_id})"))
    if state.reused is not None:
        grid.add_row("reuse", Text(_reuse(state.reused)))
    for note in state.notes:
        grid.add_row("note", Text(note))
    grid.add_row("iteration", Text(_where(state)))
    grid.add_row("evaluating", _bar(state.batch_done, state.batch) if state.batch else "-")
    grid.add_row("so far", Text(_counts(state)))
    grid.add_row("best", _best(state))
    if state.calls:
        grid.add_row("models", Text(_calls(state)))
    elif state.forecast is not None:
        grid.add_row("models", Text(forecast_words(state)))
    grid.add_row("time", _time(state))
    return Group(grid, _improvements(state))


def _made(state: ProgressState) -> str:
    """The plans and candidates of the iteration, for instance "6 plans, 8 candidates, 1
    duplicate".
    """
    counts = {
        "plan": state.plans,
        "candidate": state.candidates,
        "duplicate": state.duplicates,
    }
    return ", ".join(counted(count, name) for name, count in counts.items())


def _where(state: ProgressState) -> str:
    if state.iteration == 0:
        return "the starting kernel"
    return f"{state.iteration} of {state.iterations}, {state.stage}: {_made(state)}" + (
        f", {state.steps_failed} proposals failed" if state.steps_failed else ""
    )


def _counts(state: ProgressState) -> str:
    return (
        f"{counted(state.evaluations, 'evaluation')}: {state.measured} measured, "
        f"{state.stopped_early} stopped early, {state.failed} failed"
    )


def _calls(state: ProgressState) -> str:
    """Calls, tokens and dollars of this session, with a forecast of the dollars."""
    at_most = "at most " if state.has_reserved_tokens else ""
    parts = [f"{state.calls} calls to models", f"{at_most}{number(state.tokens)} tokens"]
    if state.usd or not state.unpriced:
        parts.append(f"{state.usd:.4f} USD")
    if state.unpriced:
        parts.append(f"{state.unpriced} calls of unknown price")
    forecast = state.forecast_usd()
    if forecast is not None:
        parts.append(f"about {forecast:.2f} USD in total at most")
    return ", ".join(parts)


def forecast_words(state: ProgressState) -> str:
    """An upper bound on the cost of calls to models, and the limits of the budget."""
    forecast, budget = state.forecast, state.budget
    assert forecast is not None, "told before"
    usd = "an unknown price" if forecast.usd is None else f"{forecast.usd:,.2f} USD"
    limits = describe_budget(budget.of_models)
    return (
        f"language models may use up to {forecast.calls:,} calls, {forecast.tokens:,} tokens and "
        f"{usd}"
    ) + (f"; the budget stops them at {limits}" if limits else "")


def _best(state: ProgressState) -> Text:
    if state.best is None:
        return Text("-")
    return Text.assemble((ratio(state.speedup), "bold green"), f"  {_latency(state.best)}")


def _time(state: ProgressState) -> Table | Text:
    left = state.seconds_left()
    if left is None:
        return Text(f"{duration(state.wall_s)}")
    words = f"{duration(state.wall_s)}, at most about {duration(left)} left"
    return _bar(state.wall_s, state.wall_s + left, words)


def _bar(done: float, total: float, words: str = "") -> Table:
    """A progress bar, followed by words, which are "12 of 58" by default."""
    row = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=total or 1, completed=done, width=BAR_WIDTH)
    row.add_row(bar, Text(words or f"{done:g} of {total:g}"))
    return row


def _improvements(state: ProgressState) -> Table:
    table = Table.grid(padding=(0, 2))
    for _ in range(3):
        table.add_column(no_wrap=True, overflow="ellipsis")
    for improvement in state.improvements[-SHOWN_IMPROVEMENTS:]:
        trial = improvement.trial
        table.add_row(
            Text(f"{duration(improvement.wall_s):>11}", style="dim"),
            Text(ratio(improvement.speedup), style="green"),
            Text(_option(trial)),
        )
    return table


def _option(trial: Trial) -> str:
    plan = trial.candidate.plan
    return words(plan.option) if plan else trial.candidate.proposer


def _latency(trial: Trial) -> str:
    outcome = trial.outcome
    if not isinstance(outcome, Measured):
        return "not measured"
    return (
        f"{number(outcome.latency)} {outcome.quantity} {outcome.unit}, "
        f"{percent(outcome.utilization)} of the peak"
    )
