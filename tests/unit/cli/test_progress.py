import io
from dataclasses import replace

from rich.console import Console

from tilewright.cli.progress import Progress, live_panel
from tilewright.cli.progress_state import ProgressState
from tilewright.core.budget import Budget
from tilewright.core.records import CallRecord, Candidate, Failed, History, Schedule, Trial
from tilewright.core.run_notes import ReusedSchedule
from tilewright.search.events import (
    Called,
    Evaluated,
    EvaluationStarted,
    Event,
    Implemented,
    IterationFinished,
    IterationStarted,
    ModelsForecast,
    Noted,
    Planned,
    ProposalFailed,
    RunStarted,
    SchedulesReused,
    Stopped,
)
from tilewright.testing.runs import history, measured, run_record

TRIALS = history(40, per_iteration=20)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def events() -> list[Event]:
    """What a search of 40 trials in two iterations would report."""
    found: list[Event] = [
        RunStarted(run_record(wall_s=0.0), History()),
        EvaluationStarted(0, 1),
        Evaluated(TRIALS[0]),
    ]
    for iteration in (1, 2):
        batch = [t for t in TRIALS if t.iteration == iteration]
        found += [
            IterationStarted(iteration, 15, (TRIALS[0],)),
            Planned(iteration, "p", 10),
            Implemented(iteration, "p", len(batch), 3),
            EvaluationStarted(iteration, len(batch)),
            *(Evaluated(trial) for trial in batch),
            IterationFinished(iteration, len(batch), TRIALS.best),
        ]
    return [*found, Stopped("no better kernel in 4 iterations")]


def test_counts_and_best_follow_the_events() -> None:
    state = ProgressState(Budget())
    for event in events():
        state.apply(event)
    assert state.evaluations == 40
    assert state.measured + state.stopped_early + state.failed == 40
    assert state.measured == sum(t.latency is not None for t in TRIALS)
    assert (state.iteration, state.iterations) == (2, 15)
    assert (state.plans, state.candidates, state.duplicates) == (10, 19, 3)
    assert (state.batch, state.batch_done) == (19, 19)
    assert state.best is TRIALS.best
    speedups = [i.speedup for i in state.improvements]
    assert speedups == sorted(speedups)
    assert state.speedup == speedups[-1]


def test_time_left_counts_earlier_sessions_of_the_run() -> None:
    clock = Clock()
    state = ProgressState(Budget(evaluations=100, wall_s=90), clock)
    state.apply(RunStarted(run_record(wall_s=50.0), TRIALS))
    assert state.evaluations == 40
    assert state.best is TRIALS.best
    assert state.seconds_left() == 40
    clock.now += 10
    for trial in history(60)[40:]:
        state.apply(Evaluated(trial))
    assert state.wall_s == 60
    assert state.seconds_left() == min(30, (100 - state.evaluations) * 10 / 20)
    clock.now += 500
    assert state.seconds_left() == 0


def test_without_a_budget_the_iterations_bound_the_time() -> None:
    clock = Clock()
    state = ProgressState(Budget(), clock)
    state.apply(RunStarted(run_record(wall_s=0.0), TRIALS))
    clock.now += 5
    state.apply(IterationStarted(3, 15, ()))
    clock.now += 10
    assert state.seconds_left() is None
    state.apply(IterationStarted(4, 15, ()))
    assert state.seconds_left() == 12 * 10
    clock.now += 10
    state.apply(IterationStarted(5, 15, ()))
    assert state.seconds_left() == 11 * 10


def test_a_log_gets_plain_lines() -> None:
    stream = io.StringIO()
    with Progress(Budget(), Console(file=stream, width=40)) as progress:
        for event in events():
            progress.on_event(event)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "run 3fa94c10: gemmini:gemm-12544x64x256"
    assert "starting kernel: 2,900,000 simulated cycles" in lines[1]
    assert any("iteration 2 of 15: 10 plans" in line for line in lines)
    assert not any("\x1b" in line for line in lines)


def test_the_log_of_a_search_with_models_tells_every_outcome() -> None:
    """Each kernel costs calls, so a user wants to know what became of it."""

    def lines(*more: Event) -> list[str]:
        stream = io.StringIO()
        failed = Failed("build", "compile_error", "kernel.c:7: error", line=7)
        stopped = Failed("measure", "slower_than_limit", "")
        with Progress(Budget(), Console(file=stream, width=40)) as progress:
            for event in [
                RunStarted(run_record(wall_s=0.0), History()),
                *more,
                Evaluated(Trial(0, 0, Candidate("a"), measured(1000.0))),
                Evaluated(Trial(1, 1, Candidate("b", proposer="m"), measured(500.0))),
                Evaluated(Trial(2, 1, Candidate("c", proposer="m"), measured(800.0))),
                Evaluated(Trial(3, 1, Candidate("d", proposer="m"), failed)),
                Evaluated(Trial(4, 1, Candidate("e", proposer="m"), stopped)),
            ]:
                progress.on_event(event)
        return [line.partition("] ")[2] for line in stream.getvalue().splitlines()[1:]]

    with_models = lines(ModelsForecast(10, 1000, 1.0))[1:]
    assert [line.split(", ")[0] for line in with_models[1:3]] == [
        "evaluation 1: 2.00x",
        "evaluation 2: 1.25x",
    ]
    assert "not the best: m" in with_models[2]
    assert "not the best" not in with_models[1]
    assert with_models[3:] == [
        "evaluation 3 failed (compile error, line 7): m",
        "evaluation 4 was stopped (slower than limit): m",
    ]
    assert [line.split(":")[0] for line in lines()] == ["starting kernel", "evaluation 1"]


def test_a_step_that_failed_is_told_and_counted_until_the_next_iteration() -> None:
    stream = io.StringIO()
    with Progress(Budget(), Console(file=stream, width=40)) as progress:
        progress.on_event(IterationStarted(1, 15, (TRIALS[0],)))
        progress.on_event(ProposalFailed(1, "p", "Traceback\nValueError: a defect\n"))
        panel = Console(file=io.StringIO(), width=120)
        panel.print(live_panel(replace(progress.state, run_id="3fa94c10")))
        assert "0 duplicates, 1 proposals failed" in panel.file.getvalue()  # type: ignore[attr-defined]
        progress.on_event(IterationStarted(2, 15, (TRIALS[0],)))
        assert progress.state.steps_failed == 0
    assert "a proposer made no candidate: ValueError: a defect" in stream.getvalue()


def test_a_forecast_is_told_with_the_limits_that_end_it() -> None:
    stream = io.StringIO()
    with Progress(Budget(usd=5.0), Console(file=stream, width=200)) as progress:
        progress.on_event(ModelsForecast(1200, 30_000_000, 12.5))
    assert stream.getvalue() == (
        "forecast: language models may use up to 1,200 calls, 30,000,000 tokens and 12.50 USD; "
        "the budget stops them at 5 USD\n"
    )


def test_what_a_run_begins_with_is_told_with_the_way_out() -> None:
    stream = io.StringIO()
    schedule = Schedule("toy:other", (), (1.0,), "cycles")
    with Progress(Budget(), Console(file=stream, width=200)) as progress:
        for chosen in (True, False):
            progress.on_event(SchedulesReused((ReusedSchedule(schedule, "3fa94c10", chosen),)))
        panel = Console(file=io.StringIO(), width=200)
        panel.print(live_panel(replace(progress.state, run_id="3fa94c10")))
        assert "were found for toy:other" in panel.file.getvalue()  # type: ignore[attr-defined]
    begins = "the run first tries the steps that were found for toy:other (run 3fa94c10)"
    assert stream.getvalue() == f"{begins}; with --no-reuse, it does not\n{begins}\n"


def test_a_note_is_told() -> None:
    stream = io.StringIO()
    with Progress(Budget(), Console(file=stream, width=200)) as progress:
        progress.on_event(Noted("no other machine verifies the kernels"))
        panel = Console(file=io.StringIO(), width=200)
        panel.print(live_panel(replace(progress.state, run_id="3fa94c10")))
        assert "no other machine verifies" in panel.file.getvalue()  # type: ignore[attr-defined]
    assert stream.getvalue() == "note: no other machine verifies the kernels\n"


def test_the_panel_survives_every_state_and_hostile_names() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    state = ProgressState(Budget(wall_s=90))
    state.task = "[red]folder[/"
    console.print(live_panel(state))
    for event in events():
        state.apply(event)
        console.print(live_panel(state))


def test_an_improvement_below_the_noise_is_no_new_best() -> None:
    state = ProgressState(Budget())
    start = replace(TRIALS[0], outcome=replace(measured(1000.0), noise=0.01))
    state.apply(Evaluated(start))
    for latency, is_new in ((990.0, False), (970.0, True), (969.0, False)):
        outcome = replace(measured(latency), noise=0.01)
        found = state.apply(Evaluated(replace(start, index=1, outcome=outcome)))
        assert (found is not None) is is_new


def test_the_line_of_an_iteration_tells_its_fastest_kernel_also_where_it_is_no_new_best() -> None:
    """A kernel that is nearly as fast would else look lost."""
    start = Trial(0, 0, Candidate("start"), measured(100.0))
    wrong = Failed("check", "wrong_result", "")
    outcomes = [[measured(50.0)], [measured(80.0), measured(62.5), wrong], [wrong]]
    stream = io.StringIO()
    with Progress(Budget(), Console(file=stream, width=200)) as progress:
        progress.on_event(Evaluated(start))
        for number, batch in enumerate(outcomes, 1):
            progress.on_event(IterationStarted(number, 3, (start,)))
            for position, outcome in enumerate(batch):
                made = Candidate(f"{number} {position}", start.candidate.id)
                progress.on_event(Evaluated(Trial(number, number, made, outcome)))
            progress.on_event(IterationFinished(number, len(batch), None))
    lines = [line.partition("duplicates, ")[2] for line in stream.getvalue().splitlines()]
    assert [line for line in lines if line] == [
        "1 evaluated (fastest 2.00x); best 2.00x",
        "3 evaluated (fastest 1.60x, 1 failed); best 2.00x",
        "1 evaluated (1 failed); best 2.00x",
    ]


def test_a_kernel_that_seems_faster_than_the_best_is_said_to_be_within_the_noise() -> None:
    start = Trial(0, 0, Candidate("start"), replace(measured(1000.0), noise=0.2))
    stream = io.StringIO()
    with Progress(Budget(), Console(file=stream, width=200)) as progress:
        progress.on_event(Evaluated(start))
        progress.on_event(IterationStarted(1, 1, (start,)))
        outcomes = [replace(measured(latency), noise=0.2) for latency in (500.0, 400.0)]
        for number, outcome in enumerate(outcomes, 1):
            made = Candidate(f"{number}", start.candidate.id)
            progress.on_event(Evaluated(Trial(number, 1, made, outcome)))
        progress.on_event(IterationFinished(1, 2, None))
    told = "2 evaluated (fastest 2.50x, within the noise of the best); best 2.00x"
    assert told in stream.getvalue()


def test_reserved_tokens_are_told_as_an_upper_bound() -> None:
    counted = CallRecord("r", "k", "m", "plan", "replied", input_tokens=70, counted_tokens=90)
    for call, words in (
        (counted, ", 90 tokens"),
        (replace(counted, input_tokens=None), "at most 90 tokens"),
    ):
        state = ProgressState(Budget())
        for event in (*events()[:4], Called(call)):
            state.apply(event)
        screen = io.StringIO()
        Console(file=screen, width=100).print(live_panel(state))
        assert words in screen.getvalue()
