"""Compares ways of searching: equal conditions, interleaved arms, every raw number kept.

A comparison lives in a folder. `measurements/` has a file for each arm's search with one line for
each candidate, written as it is measured; `runs.jsonl` gets one line for each finished run. Killed
at any moment, the same call goes on.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.core.tuning_records import TunedTrial
from tilewright.tuner.tvm import rules as schedule_rules
from tilewright.tuner.tvm.analysis import analyse
from tilewright.tuner.tvm.builder import Builder, open_builder
from tilewright.tuner.tvm.loading import tvm_version
from tilewright.tuner.tvm.programs import Program
from tilewright.tuner.tvm.references import reference_kind, reference_name
from tilewright.tuner.tvm.runner import MeasuringRules, Runner
from tilewright.tuner.tvm.session import Budget, Tuning
from tilewright.tuner.tvm.setup import ARMS, open_search
from tilewright.tuner.tvm.targets import TuningTarget
from tilewright.tuner.tvm.task_files import task_files
from tilewright.tuner.tvm.trials import Ledger
from tilewright.tuning.confirmation import confirmed
from tilewright.tuning.stored import measurement_of, stored_trial

ROUNDS = 30
"""Interleaved samples of every arm's best kernels at the end of a group."""

OnStep = Callable[[str, int, float | None], None]
"""Told an arm's name, how many trials it has, and its best seconds so far."""


@dataclass(frozen=True)
class Group:
    """One workload and seed, for which all arms are run side by side."""

    program: Program
    seed: int
    budgets: Mapping[str, int]
    checkpoints: tuple[int, ...]

    def name(self, target: TuningTarget) -> str:
        """Begins the names of this group's files."""
        return f"{self.program.name}-s{self.seed}-t{target.threads}"


def read_runs(folder: Path) -> list[dict[str, Any]]:
    """Finished runs of a comparison's folder, oldest first; half a line at the end is ignored."""
    return list(_lines(folder / "runs.jsonl"))


def is_finished(group: Group, target: TuningTarget, runs: Sequence[Mapping[str, Any]]) -> bool:
    """Whether every arm of the group was confirmed beside all the others."""
    sessions: dict[str, set[str]] = {}
    looked_at = {str(checkpoint) for checkpoint in group.checkpoints}
    for run in runs:
        same = (run["workload"], run["seed"], run["threads"], run["target"]) == (
            group.program.name,
            group.seed,
            target.threads,
            target.text,
        )
        budget = group.budgets.get(run["arm"], 0)
        known = {*run["confirmed"], *run.get("unconfirmed", ())}
        missing = {c for c in looked_at - known if int(c) <= budget}
        if same and run["trials"] >= budget and not (missing and known):
            sessions.setdefault(run["session"], set()).add(run["arm"])
    return any(set(group.budgets) <= arms for arms in sessions.values())


def run_group(
    group: Group,
    target: TuningTarget,
    folder: Path,
    rules: MeasuringRules,
    on_step: OnStep | None = None,
) -> list[dict[str, Any]]:
    """Run what is missing of a group, confirm all arms together, append and return their lines."""
    (folder / "measurements").mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        task = stack.enter_context(task_files(group.program, group.seed))
        runner = stack.enter_context(Runner(task, target.device_kind, target.threads, rules))
        arms = [
            stack.enter_context(_Arm(name, group, target, folder, runner)) for name in group.budgets
        ]
        while waiting := [arm for arm in arms if not arm.finished]:
            arm = min(waiting, key=lambda arm: len(arm.trials))
            arm.step()
            if on_step is not None:
                on_step(arm.name, len(arm.trials), arm.best_seconds(len(arm.trials)))
        lines = _confirm(group, target, arms, runner)
    _append(folder / "runs.jsonl", lines)
    return lines


class _Arm:
    """One arm's search of a group, kept in its own file line by line."""

    def __init__(
        self, name: str, group: Group, target: TuningTarget, folder: Path, runner: Runner
    ) -> None:
        self.name, self._group, self._target = name, group, target
        self._runner = runner
        self._file = folder / "measurements" / f"{group.name(target)}-{name}.jsonl"
        self._budget = group.budgets[name]
        rows = list(_lines(self._file))[: self._budget]
        self.trials = [_trial(row) for row in rows]
        self.ledger = Ledger(**rows[-1]["ledger"]) if rows else Ledger()
        self._tuning: Tuning | None = None
        self._builder: Builder | None = None
        self._at_end = False

    def __enter__(self) -> _Arm:
        return self

    def __exit__(self, *_: object) -> None:
        if self._builder is not None:
            self._builder.close()

    @property
    def finished(self) -> bool:
        """Whether its trials are used up, or its space is."""
        return self._at_end or len(self.trials) >= self._budget

    def step(self) -> None:
        """One more batch of new trials; the first call drives the search through what is kept."""
        tuning = self._tuning or self._open()
        going = True
        while going and len(tuning.trials) <= len(self.trials):
            going = tuning.step()
        if any(a.key != b.key for a, b in zip(tuning.trials, self.trials, strict=False)):
            self._file.unlink()  # another version of the search asks otherwise: this one counts
            self.trials = []
        new = [stored_trial(trial) for trial in tuning.trials[len(self.trials) :]]
        _append(self._file, [{**asdict(trial), "ledger": asdict(self.ledger)} for trial in new])
        self.trials += new
        self._at_end = not going

    def best_seconds(self, trials: int) -> float | None:
        """Best median among the first `trials`."""
        best = self.best(trials)
        return None if best is None else _seconds(best)

    def best(self, trials: int) -> TunedTrial | None:
        """The fastest among the first `trials`."""
        timed = [t for t in self.trials[:trials] if t.failure is None]
        return min(timed, key=_seconds, default=None)

    def _open(self) -> Tuning:
        search = open_search(
            self._group.program, self._target, ARMS[self.name], self._budget, self._group.seed
        )
        self._builder = open_builder(self._target)
        self._tuning = Tuning(
            search,
            self._builder,
            self._runner,
            Budget(self._budget),
            {trial.key: measurement_of(trial) for trial in self.trials},
            build_ahead=self._target.spare_cores > 0,
            spent=self.ledger,
        )
        self.ledger = search.ledger
        return self._tuning


def _confirm(
    group: Group, target: TuningTarget, arms: Sequence[_Arm], runner: Runner
) -> list[dict[str, Any]]:
    """Time the best kernels of all arms and checkpoints, and the reference, in the same rounds.

    Of a kernel that fails now, `unconfirmed` says why at each checkpoint whose best it was.
    """
    module = schedule_rules.normalised(group.program.function)
    wanted: dict[str, TunedTrial] = {}
    chosen: dict[tuple[str, int], str] = {}
    for arm in arms:
        for checkpoint in group.checkpoints:
            best = arm.best(checkpoint)
            if best is not None and checkpoint <= group.budgets[arm.name]:
                wanted[best.key] = best
                chosen[arm.name, checkpoint] = best.key
    workload = analyse(group.program.function, group.program.name).workload
    kind = None if target.is_gpu else reference_kind(workload)
    with confirmed(
        module,
        target.target,
        [trial.trace for trial in wanted.values()],
        runner,
        rounds=ROUNDS,
        seed=group.seed + 1,
        reference=kind,
        slowest_s=max(map(_seconds, wanted.values()), default=0.0),
    ) as again:
        keys = list(wanted)
        by_key = {keys[n]: kernel.samples for n, kernel in again.kernels.items()}
        failed = {keys[n]: f"{found.failure}: {found.log}" for n, found in again.failures.items()}
    session = uuid.uuid4().hex[:8]
    shared = {
        "session": session,
        "workload": group.program.name,
        "seed": group.seed,
        "threads": target.threads,
        "target": target.text,
        "device": target.device.name,
        "tvm": tvm_version(),
        "flops": workload.flops,
        "load_average": os.getloadavg()[0],
        "reference": None
        if kind is None or again.reference is None
        else {"name": reference_name(kind), "samples": again.reference},
    }
    return [
        {
            **shared,
            "arm": arm.name,
            "method": asdict(ARMS[arm.name]),
            "trials": group.budgets[arm.name],
            "measured": len(arm.trials),
            "curve": [[t.elapsed_s, None if t.failure else _seconds(t)] for t in arm.trials],
            "failures": _failures(arm.trials),
            "ledger": asdict(arm.ledger),
            "confirmed": {
                str(checkpoint): by_key[key]
                for (name, checkpoint), key in chosen.items()
                if name == arm.name and key in by_key
            },
            "unconfirmed": {
                str(checkpoint): failed[key]
                for (name, checkpoint), key in chosen.items()
                if name == arm.name and key in failed
            },
        }
        for arm in arms
    ]


def _failures(trials: Sequence[TunedTrial]) -> dict[str, int]:
    kinds = [trial.failure for trial in trials if trial.failure is not None]
    return {kind: kinds.count(kind) for kind in sorted(set(kinds))}


def _seconds(trial: TunedTrial) -> float:
    return float(np.median(trial.samples))


def _trial(row: dict[str, Any]) -> TunedTrial:
    fields = {key: value for key, value in row.items() if key != "ledger"}
    return TunedTrial(**{**fields, "samples": tuple(fields["samples"])})


def _append(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add lines, in one write; after half a line of a killed process, on a new one."""
    with file.open("ab+") as opened:
        opened.seek(0, os.SEEK_END)
        if opened.tell():
            opened.seek(-1, os.SEEK_END)
            rows_begin = b"" if opened.read(1) == b"\n" else b"\n"
        else:
            rows_begin = b""
        opened.write(rows_begin + "".join(json.dumps(row) + "\n" for row in rows).encode())


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    """Whole lines of a JSON-lines file; nothing if it is not there."""
    if not file.exists():
        return
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:  # the line that a killed process was writing
            continue
