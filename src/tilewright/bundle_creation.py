"""Writes the result of a run as a bundle, without commands, addresses and paths of this machine."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from tilewright.confirming import confirmed
from tilewright.core.codec import to_json
from tilewright.core.config import Settings
from tilewright.core.errors import InputError
from tilewright.core.files import read_text, require_inside
from tilewright.core.records import RunRecord
from tilewright.core.tasks import OpenTask, open_task
from tilewright.proposers.llm.models import public_name
from tilewright.run import open_project
from tilewright.run_metadata import baselines
from tilewright.storage.bundle_file import pack
from tilewright.storage.evidence import (
    MAX_FILES,
    MAX_FILES_BYTES,
    TARGET_FILE,
    text_suffixes,
)

SEEDS_POLICY = (
    "The inputs of the run were derived from a secret of the run, or from the input_seed of its "
    "settings. Its winner was then rebuilt and checked on seeds from the operating system's "
    "random source, which are not stored. A verification draws new seeds."
)
_ABSOLUTE_PATH = re.compile(r"(?<![\w./])/(?:[\w.+@~-]+/)+([\w.+@~-]*)")


def create(project: Path, run_name: str) -> bytes:
    """The bundle of a run's best kernel; `InputError` if no kernel is faster than the starting
    kernel.
    """
    with closing(open_project(project)) as storage:
        run = storage.run(run_name)
        history = storage.history(run.id)
        compared = baselines(storage, run.id)
        held = confirmed(storage, run.id)
    best, start = history.best, history.baseline
    if best is None or start is None or best.index == 0:
        raise InputError(
            f"run {run.id} found no kernel that is faster than its starting kernel, so there is no "
            f"result to bundle. `tilewright runs show {run.id}` says what the run did."
        )
    opened = open_task(run.task, run.settings)
    trials = [
        {"index": t.index, "candidate": _public(t.candidate), "outcome": _public(t.outcome)}
        for t in history.lineage(best.candidate.id)
    ]
    return pack({
        "run": {
            "id": run.id, "task": _public_name(run), "target": run.target,
            "settings": _public_settings(run), "versions": _public(dict(run.versions)),
            "created_at": run.created_at, "wall_s": run.wall_s,
            "stop_reason": _public_reason(run),
            "evaluations": len(history),
        },
        "workload": to_json(replace(opened.task.workload, source="")),
        "files": _files(run, opened),
        "start": start.candidate.source,
        "winner": best.candidate.source,
        "start_outcome": _public(start.outcome),
        "winner_outcome": _public(best.outcome),
        "confirmed": held == best.candidate.id,
        "baselines": _public(list(compared)),
        "lineage": trials,
        "seeds": SEEDS_POLICY,
    })  # fmt: skip


def _public_name(run: RunRecord) -> str:
    """The task's name. For a folder, only the last part of its path, so that a bundle contains no
    paths of its author's disk.
    """
    return Path(run.task).name if Path(run.task).is_absolute() else run.task


def _public_settings(run: RunRecord) -> dict[str, Any]:
    settings: dict[str, Any] = _public(dict(run.settings))
    if str(run.settings.get("target") or "").endswith(".toml"):
        settings["target"] = TARGET_FILE
    return settings


def _public_reason(run: RunRecord) -> str:
    reason = run.stop_reason
    for name in Settings.from_recorded(run.settings).proposers:
        reason = reason.replace(name, public_name(name))
    return str(_public(reason))


def _public(value: Any, key: str = "") -> Any:
    """A record as JSON, without the commands, addresses and paths of this machine.

    The sources of kernels are not changed, because they are the evidence.
    """
    if key == "":
        value = to_json(value)
    if isinstance(value, dict):
        return {k: _public(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_public(item, key) for item in value]
    if not isinstance(value, str) or key == "source":
        return value
    if key in ("proposer", "proposers"):
        return public_name(value)
    return _ABSOLUTE_PATH.sub(r"\1", value)


def _files(run: RunRecord, opened: OpenTask) -> dict[str, str]:
    """A user's kernel folder and target file, as texts."""
    found: dict[str, str] = {}
    chosen = str(run.settings.get("target") or "")
    if chosen.endswith(".toml"):
        found[TARGET_FILE] = _text(Path(chosen), None)
    folder = Path(run.task)
    if folder.is_absolute():
        if opened.fingerprint != run.versions.get("task"):
            raise InputError(
                f"{folder} has changed since run {run.id}. Restore the files that the run used, "
                "or start a new run."
            )
        if not folder.is_dir():
            raise InputError(
                f"run {run.id} worked on the single file {folder}, but a bundle can hold only a "
                "workload that comes with tilewright or a kernel folder."
            )
        suffixes = text_suffixes(opened.target.brief().language.suffix)
        for path in sorted(folder.iterdir()):
            if path.suffix in suffixes and path.is_file():
                found[path.name] = _text(path, folder)
    if len(found) > MAX_FILES or sum(map(len, found.values())) > MAX_FILES_BYTES:
        raise InputError(
            f"{folder} has more or larger text files than a bundle can hold ({MAX_FILES} files of "
            f"{MAX_FILES_BYTES >> 20} MiB together). Keep other files in another folder."
        )
    return found


def _text(path: Path, folder: Path | None) -> str:
    """The text of a file, which must lie in the folder if there is one; `InputError` otherwise."""
    try:
        if folder is not None:
            require_inside(path, folder)
        return read_text(path, MAX_FILES_BYTES)
    except OSError as error:
        raise InputError(f"{path} cannot be put into a bundle: {error.strerror}.") from error
