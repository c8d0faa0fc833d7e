"""Trials and events as plain values, for `--events FILE` and for tables.

Each event is one JSON object with the name of its type as "event" and the fields that
docs/python.md lists. Missing or unknown numbers are null.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from tilewright.core.errors import OutputError
from tilewright.core.records import Failed, Measured, Trial
from tilewright.search.events import (
    AgentEnded,
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

_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""The characters with which a formula of a spreadsheet begins."""


def trial_record(trial: Trial) -> dict[str, object]:
    """One trial as a flat row. `verdict` is "correct", or the kind of failure that occurred in
    `stage`.
    """
    outcome, plan = trial.outcome, trial.candidate.plan
    failed = outcome if isinstance(outcome, Failed) else None
    measured = outcome if isinstance(outcome, Measured) else None
    return {
        "trial": trial.index,
        "iteration": trial.iteration,
        "candidate": trial.candidate.id,
        "parent": trial.candidate.parent_id,
        "proposer": trial.candidate.proposer,
        "option": plan.option if plan else None,
        "plan": plan.text if plan else None,
        "turn": plan.turn if plan else None,
        "verdict": failed.kind if failed else "correct",
        "stage": failed.stage if failed else None,
        "latency": measured.latency if measured else None,
        "unit": measured.unit if measured else None,
        "quantity": measured.quantity if measured else None,
        "utilization": measured.utilization if measured else None,
        "precision": (measured.verdict.precision or None) if measured else None,
        "cached": trial.cached,
        "wall_s": trial.wall_s,
    }


def spreadsheet_row(row: Mapping[str, object]) -> dict[str, object]:
    """A row in which a spreadsheet does not interpret any text as a formula. Plans are written by
    models and may be opened in a spreadsheet.

    >>> spreadsheet_row({"plan": "=1+1", "turn": 2})
    {'plan': "'=1+1", 'turn': 2}
    """
    return {
        name: f"'{value}" if isinstance(value, str) and value.startswith(_FORMULAS) else value
        for name, value in row.items()
    }


def event_record(event: Event) -> dict[str, object]:
    """An event as a JSON-compatible dictionary, with the name of its type as "event".

    >>> import tilewright as tw
    >>> tw.event_record(tw.events.Stopped("all 3 iterations are done"))
    {'event': 'Stopped', 'reason': 'all 3 iterations are done'}
    """
    return {"event": type(event).__name__, **_fields(event)}


def _fields(event: Event) -> dict[str, object]:
    match event:
        case RunStarted(run, history):
            return {
                "run": run.id,
                "task": run.task,
                "target": run.target,
                "settings": dict(run.settings),
                "versions": dict(run.versions),
                "trials": len(history),
            }
        case IterationStarted(iteration, iterations, parents):
            ids = [parent.candidate.id for parent in parents]
            return {"iteration": iteration, "iterations": iterations, "parents": ids}
        case Planned(iteration, parent, plans):
            return {"iteration": iteration, "parent": parent, "plans": plans}
        case Implemented(iteration, parent, candidates, duplicates):
            return {
                "iteration": iteration,
                "parent": parent,
                "candidates": candidates,
                "duplicates": duplicates,
            }
        case ProposalFailed(iteration, parent, log):
            return {"iteration": iteration, "parent": parent, "log": log}
        case EvaluationStarted(iteration, candidates):
            return {"iteration": iteration, "candidates": candidates}
        case Evaluated(trial):
            return trial_record(trial)
        case IterationFinished(iteration, evaluated, best):
            return {
                "iteration": iteration,
                "evaluated": evaluated,
                "best_trial": best.index if best else None,
                "best_latency": best.latency if best else None,
            }
        case Called(call):
            return {
                "model": call.model,
                "phase": call.phase,
                "state": call.state,
                "cached": call.cached,
                "input_tokens": call.input_tokens,
                "cached_tokens": call.cached_tokens,
                "output_tokens": call.output_tokens,
                "reasoning_tokens": call.reasoning_tokens,
                "usd": call.usd,
                "note": call.note,
            }
        case ModelsForecast(calls, tokens, usd):
            return {"calls": calls, "tokens": tokens, "usd": usd}
        case SchedulesReused(notes):
            return {
                "runs": [note.run for note in notes],
                "workloads": [note.schedule.workload for note in notes],
                "chosen": any(note.chosen for note in notes),
            }
        case AgentEnded(work):
            return {
                "iteration": work.iteration,
                "parent": work.parent,
                "agent": work.agent,
                "how": work.how,
                "detail": work.detail,
                "submitted": work.submitted or None,
                "evaluations": work.evaluations,
                "calls": work.calls,
                "wall_s": work.wall_s,
            }
        case Noted(text):
            return {"text": text}
        case Stopped(reason):
            return {"reason": reason}


class EventLines:
    """A listener that appends every event to a file: one JSON object per line, written at once.

    In addition to the fields of `event_record`, each line has the "time" in UTC. Lines that the
    file already contains are kept. Raises `OutputError` if the file cannot be written.

    >>> import tilewright as tw
    >>> lines = tw.EventLines("events.jsonl")
    >>> lines(tw.events.Stopped("all 3 iterations are done"))
    >>> lines.close()
    >>> print(open("events.jsonl").read())  # doctest: +ELLIPSIS
    {"time": "...", "event": "Stopped", "reason": "all 3 iterations are done"}
    <BLANKLINE>
    """

    def __init__(self, file: str | Path) -> None:
        self._path = Path(file)
        try:
            self._file = self._path.open("a", encoding="utf-8", buffering=1)
        except OSError as error:
            raise self._refused(error) from error

    def __call__(self, event: Event) -> None:
        """Append one line."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": time, **event_record(event)}, default=str)
        try:
            self._file.write(f"{line}\n")
        except OSError as error:
            raise self._refused(error) from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _refused(self, error: OSError) -> OutputError:
        reason = (error.strerror or type(error).__name__).lower()
        return OutputError(
            f"cannot write events to {self._path}: {reason}. Give a file in an existing folder "
            "that you may write to."
        )
