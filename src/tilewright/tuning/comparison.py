"""Compares ways of searching under equal conditions, with arms that run alternately. All raw
numbers are stored.

A comparison is stored in a folder. `measurements/` contains a file for each arm's search with one
line for each measured candidate, and `runs.jsonl` contains one line for each finished run. If the
process is killed, the same call continues.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.core.errors import InputError
from tilewright.core.tuning_records import TunedTrial
from tilewright.tuner.tvm import rules as schedule_rules
from tilewright.tuner.tvm.analysis import analyse
from tilewright.tuner.tvm.builder import Builder
from tilewright.tuner.tvm.loading import tvm_version
from tilewright.tuner.tvm.programs import Program
from tilewright.tuner.tvm.references import missing_library, reference_kind, reference_name
from tilewright.tuner.tvm.runner import MeasuringRules
from tilewright.tuner.tvm.session import Budget, Tuning
from tilewright.tuner.tvm.setup import ARMS, open_search
from tilewright.tuner.tvm.targets import TuningTarget
from tilewright.tuner.tvm.trials import Ledger, Trial
from tilewright.tuning.comparison_table import NONE_YET, time_key
from tilewright.tuning.confirmation import confirmed
from tilewright.tuning.instruments import Instruments, OpenInstruments, real_instruments
from tilewright.tuning.json_lines import append, read_lines
from tilewright.tuning.stored import measurement_of, stored_trial, trial_of

ROUNDS = 30
"""Number of rounds in which the best kernels of all arms are timed alternately at the end of a
group.
"""

_RUN_FIELDS = {
    "workload": str,
    "seed": int,
    "threads": int,
    "target": str,
    "session": str,
    "arm": str,
    "trials": int,
    "curve": list,
    "confirmed": dict,
}
"""The fields of a finished run by which runs are found and compared, with their types."""

OnStep = Callable[[str, int, float | None], None]
"""Called with the name of an arm, its number of trials, and its best seconds so far."""


@dataclass(frozen=True)
class Group:
    """One workload and seed, for which all arms are run alternately.

    The best kernels of an arm are compared after `checkpoints` trials, and after it has searched
    for `after_s` seconds. The turns of other arms do not count.
    """

    program: Program
    seed: int
    budgets: Mapping[str, int]
    checkpoints: tuple[int, ...]
    after_s: tuple[float, ...] = ()

    def name(self, target: TuningTarget) -> str:
        """The prefix of the names of this group's files."""
        return f"{self.program.name}-s{self.seed}-t{target.threads}"


def read_runs(folder: Path) -> list[dict[str, Any]]:
    """The finished runs in a comparison's folder, oldest first. An incomplete line at the end is
    ignored. `InputError` if a line is not a run.
    """
    file = folder / "runs.jsonl"
    runs = list(read_lines(file))
    for run in runs:
        if any(not isinstance(run.get(name), kind) for name, kind in _RUN_FIELDS.items()):
            raise _not_written_here(file)
    return runs


def _not_written_here(file: Path) -> InputError:
    return InputError(
        f"{file} contains a line that tilewright did not write. Remove the file, or give another "
        "output folder."
    )


def is_finished(group: Group, target: TuningTarget, runs: Sequence[Mapping[str, Any]]) -> bool:
    """Whether all arms of the group were confirmed together."""
    sessions: dict[str, set[str]] = {}
    looked_at = {str(checkpoint) for checkpoint in group.checkpoints}
    times = {time_key(seconds) for seconds in group.after_s}
    for run in runs:
        same = (run["workload"], run["seed"], run["threads"], run["target"]) == (
            group.program.name,
            group.seed,
            target.threads,
            target.text,
        )
        budget = group.budgets.get(run["arm"], 0)
        known = {*run["confirmed"], *run.get("unconfirmed", ())}
        missing = {c for c in looked_at - known if int(c) <= budget} | times - known
        if same and run["trials"] >= budget and not (missing and known):
            sessions.setdefault(run["session"], set()).add(run["arm"])
    return any(set(group.budgets) <= arms for arms in sessions.values())


def run_group(
    group: Group,
    target: TuningTarget,
    folder: Path,
    rules: MeasuringRules,
    on_step: OnStep | None = None,
    *,
    open_instruments: OpenInstruments = real_instruments,
    stop: Callable[[], bool] = lambda: False,
) -> list[dict[str, Any]]:
    """Run the missing part of a group, confirm all arms together, and append and return their
    lines.

    When `stop()` returns true, no further candidate is measured, nothing is confirmed and no line
    is returned. Measured candidates are kept, and the next call continues.
    """
    (folder / "measurements").mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        tools = stack.enter_context(open_instruments(group.program, target, group.seed, rules))
        arms = [
            stack.enter_context(_Arm(name, group, target, folder, tools)) for name in group.budgets
        ]
        while not stop() and (waiting := [arm for arm in arms if not arm.finished]):
            arm = min(waiting, key=lambda arm: len(arm.trials))
            arm.step(stop)
            if on_step is not None:
                on_step(arm.name, len(arm.trials), arm.best_seconds(len(arm.trials)))
        if stop():
            return []
        lines = _confirm(group, target, arms, tools)
    append(folder / "runs.jsonl", lines)
    return lines


class _Arm:
    """One arm's search of a group, kept in its own file line by line."""

    def __init__(
        self, name: str, group: Group, target: TuningTarget, folder: Path, tools: Instruments
    ) -> None:
        self.name, self._group, self._target = name, group, target
        self._tools = tools
        self._file = folder / "measurements" / f"{group.name(target)}-{name}.jsonl"
        self._budget = group.budgets[name]
        self._rows = list(read_lines(self._file))[: self._budget]
        try:
            self.trials = [trial_of(row) for row in self._rows]
            self.ledger = Ledger(**self._rows[-1]["ledger"]) if self._rows else Ledger()
        except (KeyError, TypeError, ValueError):
            raise _not_written_here(self._file) from None
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

    def step(self, stop: Callable[[], bool]) -> None:
        """Make another batch of new trials. The first call passes the stored trials to the
        search.
        """
        tuning = self._tuning or self._open()
        going, kept = True, len(self.trials)
        while going and len(tuning.trials) <= kept:
            going = tuning.step(stop)
        self._at_end = not going and not stop()

    def _keep(self, trial: Trial) -> None:
        """Write down a trial that was not known."""
        if trial.index < len(self.trials):
            if self.trials[trial.index].key == trial.key:
                return
            # Another version of the search measures other candidates, and its results replace the
            # old ones.
            self._rows, self.trials = self._rows[: trial.index], self.trials[: trial.index]
            self._file.unlink()
            append(self._file, self._rows)
        stored = stored_trial(trial)
        ledger = {**asdict(self.ledger), "wall_s": trial.elapsed_s}
        self._rows.append({**asdict(stored), "ledger": ledger})
        self.trials.append(stored)
        append(self._file, self._rows[-1:])

    def best_seconds(self, trials: int) -> float | None:
        """Best median among the first `trials`."""
        best = self.best(trials)
        return None if best is None else _seconds(best)

    def best(self, trials: int) -> TunedTrial | None:
        """The fastest among the first `trials`."""
        timed = [t for t in self.trials[:trials] if t.failure is None]
        return min(timed, key=_seconds, default=None)

    def best_within(self, seconds: float) -> TunedTrial | None:
        """The fastest among the trials of the first `seconds` of its own search."""
        return self.best(sum(trial.elapsed_s <= seconds for trial in self.trials))

    def _open(self) -> Tuning:
        search = open_search(
            self._group.program, self._target, ARMS[self.name], self._budget, self._group.seed
        )
        self._builder = self._tools.new_builder()
        spent, self.ledger = self.ledger, search.ledger
        self._tuning = Tuning(
            search,
            self._builder,
            self._tools.runner,
            Budget(self._budget),
            {trial.key: measurement_of(trial) for trial in self.trials},
            self._keep,
            build_ahead=self._target.spare_cores > 0,
            spent=spent,
        )
        return self._tuning


def _confirm(
    group: Group, target: TuningTarget, arms: Sequence[_Arm], tools: Instruments
) -> list[dict[str, Any]]:
    """Time the best kernels of all arms and checkpoints, and the reference, in the same rounds.

    `unconfirmed` says why an arm has no kernel at a checkpoint: all candidates had failed by then,
    or the best kernel fails now.
    """
    module = schedule_rules.normalised(group.program.function)
    wanted: dict[str, TunedTrial] = {}
    chosen: dict[tuple[str, str], str] = {}
    none_yet: dict[str, list[str]] = {arm.name: [] for arm in arms}
    for arm in arms:
        found = {
            str(checkpoint): arm.best(checkpoint)
            for checkpoint in group.checkpoints
            if checkpoint <= group.budgets[arm.name]
        }
        found |= {time_key(seconds): arm.best_within(seconds) for seconds in group.after_s}
        for checkpoint, best in found.items():
            if best is None:
                none_yet[arm.name].append(checkpoint)
            else:
                wanted[best.key] = best
                chosen[arm.name, checkpoint] = best.key
    workload = analyse(group.program.function, group.program.name).workload
    kind = reference_kind(workload, target.is_gpu)
    with tools.new_builder() as builder:
        again = confirmed(
            module,
            target.target,
            [trial.trace for trial in wanted.values()],
            builder,
            tools.runner,
            rounds=ROUNDS,
            seed=group.seed + 1,
            reference=kind,
            slowest_s=max(map(_seconds, wanted.values()), default=0.0),
        )
    keys = list(wanted)
    by_key = {keys[n]: kernel.samples for n, kernel in again.kernels.items()}
    failed = {keys[n]: f"{found.failure}: {found.log}" for n, found in again.failures.items()}
    session = uuid.uuid4().hex[:8]
    shared = {
        "session": session,
        "kind": tools.kind,
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
        "no_library": missing_library(workload, target.is_gpu),
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
                checkpoint: by_key[key]
                for (name, checkpoint), key in chosen.items()
                if name == arm.name and key in by_key
            },
            "unconfirmed": {
                checkpoint: failed[key]
                for (name, checkpoint), key in chosen.items()
                if name == arm.name and key in failed
            }
            | dict.fromkeys(none_yet[arm.name], NONE_YET),
        }
        for arm in arms
    ]


def _failures(trials: Sequence[TunedTrial]) -> dict[str, int]:
    kinds = [trial.failure for trial in trials if trial.failure is not None]
    return {kind: kinds.count(kind) for kind in sorted(set(kinds))}


def _seconds(trial: TunedTrial) -> float:
    return float(np.median(trial.samples))
