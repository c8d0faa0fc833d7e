"""Runs a search for a command: checks the output files, shows progress, and writes the results."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tilewright.cli.options import command_text
from tilewright.cli.output import check_outputs, write_json, write_text
from tilewright.core.budget_text import describe_budget
from tilewright.core.config import Settings

if TYPE_CHECKING:
    from tilewright.core.records import Baseline, CallRecord, KernelLanguage, RunRecord
    from tilewright.search.events import Event, OnEvent
    from tilewright.search.summary import Summary

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells expect it."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """The files to which a search writes its results, in addition to the terminal."""

    json: Path | None = None
    report: Path | None = None
    record: Path | None = None
    events: Path | None = None

    def check(self) -> None:
        """Raise OutputError if one of them cannot be written."""
        check_outputs(json=self.json, report=self.report, record=self.record, events=self.events)


def search(
    start: Callable[[OnEvent], Summary], settings: Settings, project: Path, outputs: Outputs
) -> None:
    """Run `start`, show its progress, and print and write its result.

    After Ctrl-C, the summary describes the best kernel so far, and the exit code is 130.
    """
    from tilewright.cli.progress import Progress
    from tilewright.search.event_records import EventLines

    outputs.check()
    with ExitStack() as stack:
        lines = stack.enter_context(closing(EventLines(outputs.events))) if outputs.events else None
        progress = stack.enter_context(Progress(settings.budget))

        def hear(event: Event) -> None:
            if lines is not None:
                lines(event)
            progress.on_event(event)

        summary = start(hear)
    finish(summary, project, outputs)
    if summary.status == "interrupted" and not summary.is_out_of_time:
        raise typer.Exit(INTERRUPTED)


def finish(summary: Summary, project: Path, outputs: Outputs, full: bool = False) -> None:
    """Print the result of a run and write the requested files. With `full`, plans and turns are not
    shortened.
    """
    from tilewright.cli.console import results
    from tilewright.cli.cost_table import cost_lines
    from tilewright.cli.summary_table import failed_step_lines, summary_lines
    from tilewright.cli.turn_table import turn_lines
    from tilewright.core.run_notes import AgentWork
    from tilewright.core.tasks import brief_of
    from tilewright.models import model_calls, recording, replayed, turns_taken
    from tilewright.report.turns import turns_json
    from tilewright.run import open_project
    from tilewright.search.events import ProposalFailed

    with closing(open_project(project)) as storage:
        run, history = storage.run(summary.run_id), storage.history(summary.run_id)
        replay, agents = replayed(storage, run.id), storage.kept(run.id, AgentWork)
        failed = [
            str(d["log"])
            for _, kind, d in storage.events(run.id)
            if kind == ProposalFailed.__name__
        ]
    calls, brief = model_calls(run.id, project=project), brief_of(run)
    turns = turns_taken(run.id, history, project=project)
    in_turns = turns_json(turns, agents, history)
    write_json(outputs.json, {**summary_json(summary, calls), **in_turns})
    if outputs.record:
        write_text(outputs.record, recording(run.id, project=project))
    if outputs.report:
        from tilewright.report.static import render_report

        write_text(
            outputs.report,
            render_report(
                run,
                history,
                command_line(run),
                summary.baselines,
                summary.left_alone,
                calls,
                brief,
                turns,
                agents,
            ),
        )
    console = results()
    for line in (
        *summary_lines(summary, history, full),
        *failed_step_lines(failed),
        *cost_lines(calls, summary.gain),
        *turn_lines(turns, agents, history, full),
    ):
        console.print(line)
    if replay is not None:
        console.print(replay_sentence(replay.calls, replay.differing), soft_wrap=True)
    for name, place in next_steps(summary, project, outputs, brief.language if brief else None):
        console.print(f"{name:<14}{place}", markup=False, soft_wrap=True)


def replay_sentence(calls: int, differing: int) -> str:
    """A sentence that says whether the prompts of a replay are equal to the recorded prompts."""
    same = "all prompts are the same as in the recording"
    if differing:
        same = (
            f"{differing} prompts differ from the recorded ones, because measurements or "
            "descriptions have changed since; each of them got the reply recorded at the same "
            "point of the run"
        )
    return f"{calls} replies of models came from a recording; {same}"


def next_steps(
    summary: Summary, project: Path, outputs: Outputs, language: KernelLanguage | None
) -> list[tuple[str, str]]:
    """The location of the results, and the commands that can be used next."""
    run = [summary.run_id, *([] if project == Path() else ["--project", str(project)])]
    steps = []
    if summary.status != "finished":
        steps.append(("continue", command_text("runs", "resume", *run)))
    if summary.best_candidate_id:
        file = language.file if language else "FILE"
        steps.append(("best kernel", command_text("best", *run, "-o", file)))
    steps.append(("report", str(outputs.report or command_text("report", *run))))
    if outputs.json:
        steps.append(("json", str(outputs.json)))
    return steps


def summary_json(summary: Summary, calls: Sequence[CallRecord] = ()) -> dict[str, object]:
    """The documented fields of `--json`; missing or unknown numbers are null."""
    from tilewright.report.costs import total

    cost = total(calls)
    return {
        "workload": summary.workload,
        "target": summary.target,
        "verdict": summary.verdict,
        "baseline_latency": summary.baseline_latency,
        "best_latency": summary.best_latency,
        "unit": summary.unit or None,
        "quantity": summary.quantity or None,
        "speedup": summary.speedup,
        "best_utilization": summary.best_utilization,
        "best_precision": summary.best_precision or None,
        "warnings": list(summary.warnings),
        "baselines": {b.name: baseline_json(b, summary.best_latency) for b in summary.baselines},
        "left_alone": [asdict(part) for part in summary.left_alone],
        "evaluations": summary.evaluations,
        "wall_s": summary.wall_s,
        "seed": summary.seed,
        "versions": dict(summary.versions),
        "run": summary.run_id,
        "status": summary.status,
        "stop_reason": summary.stop_reason,
        "confirmed": summary.confirmed,
        "unconfirmed": [
            {"trial": t.index, "candidate": t.candidate.id, "reason": getattr(t.outcome, "log", "")}
            for t in summary.unconfirmed
        ],
        "model_calls": cost.calls,
        "model_tokens": cost.tokens,
        "model_usd": None if cost.unpriced else cost.usd,
    }


def baseline_json(baseline: Baseline, best: float | None) -> dict[str, object]:
    """A baseline's fields; `speedup` is that of a kernel with the latency `best` over it."""
    latency = baseline.latency
    return {
        "verdict": "correct" if latency is not None else getattr(baseline.outcome, "kind", ""),
        "latency": latency,
        "utilization": baseline.utilization,
        "precision": baseline.precision or None,
        "speedup": latency / best if latency and best else None,
    }


def command_line(run: RunRecord) -> str:
    """The command that starts this run again, with its task and all settings that are not the
    default.
    """
    settings, default = Settings.from_recorded(run.settings), Settings()
    words = ["tilewright", "optimize", shlex.quote(run.task), f"--seed {settings.seed}"]
    if settings.input_seed is not None:
        words.append(f"--input-seed {settings.input_seed}")
    if settings.target:
        words.append(f"--target {shlex.quote(settings.target)}")
    names = ("strategy", "beam", "plans", "implementations", "iterations", "dropout", "patience")
    for name in (*names, "allocation"):
        value = getattr(settings, name)
        if value != getattr(default, name):
            words.append(f"--{name} {value}")
    words += [f"--set {shlex.quote(f'{k}={v}')}" for k, v in settings.target_settings.items()]
    if settings.proposers != default.proposers:
        words += [f"--proposer {shlex.quote(name)}" for name in settings.proposers]
    words += [f"--without {name}" for name in settings.without]
    if settings.turns != default.turns:
        words.append(f"--turns {settings.turns}")
    if settings.share is not None:
        words.append(f"--share {settings.share}")
    if settings.repairs != default.repairs:
        words.append(f"--repairs {settings.repairs}")
    words += ["--edits"] if settings.edits else []
    words += ["--templates"] if settings.templates else []
    words += ["--allow-unpriced"] if settings.allow_unpriced else []
    words += [f"--from {settings.schedule_from}"] if settings.schedule_from else []
    words += [] if settings.reuse else ["--no-reuse"]
    budget = describe_budget(settings.budget)
    if budget:
        words.append(f"--budget {shlex.quote(budget)}")
    return " ".join(words)
