"""From what the user names, a workload or a folder, to an open task of its target."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tilewright.core.codec import to_json
from tilewright.core.errors import UnknownNameError, WorkloadError
from tilewright.core.plugins import load_target, target_names
from tilewright.core.records import content_id
from tilewright.core.roles import Target, Task

WORKLOAD_FILE = "workload.toml"


@dataclass(frozen=True, slots=True)
class OpenTask:
    """A task, its target, and the canonical name by which any process opens it again.

    `name` is "target:workload" or a folder's absolute path.
    """

    name: str
    target: Target
    task: Task

    @property
    def fingerprint(self) -> str:
        """Content hash of workload, starting kernel, inputs and reference."""
        workload = json.dumps(to_json(self.task.workload), sort_keys=True)
        return content_id(workload, self.task.start, self.task.fingerprint)


def open_task(name: str, settings: Mapping[str, object]) -> OpenTask:
    """Open "target:workload" or a folder with a workload.toml; `InputError`s say what is wrong.

    With `settings["target"]`, a target's name or file, the task is opened on that one: a workload
    may then be named without its target.
    """
    folder, chosen = Path(name), settings.get("target")
    if name and folder.is_dir():
        folder = folder.resolve()
        target = load_target(str(chosen or _target_of(folder)))
        return OpenTask(str(folder), target, target.open_folder(folder, settings))
    target_name, colon, spec = name.partition(":")
    if chosen and not colon:
        spec = name
    elif not colon:
        raise _unknown(name)
    target = load_target(str(chosen or target_name))
    task = target.open(spec, settings)
    return OpenTask(task.workload.name, target, task)


def _target_of(folder: Path) -> str:
    """The target's name, or the path of its file, which is relative to the folder."""
    file = folder / WORKLOAD_FILE
    try:
        target = tomllib.loads(file.read_text()).get("target")
    except FileNotFoundError:
        raise WorkloadError(
            f"folder {folder} has no {WORKLOAD_FILE}: add one that names the target and the "
            "kernel's arguments, beside reference.py and kernel.c."
        ) from None
    except (OSError, ValueError) as error:
        raise WorkloadError(
            f"{file} cannot be read ({error}): expected a TOML file in UTF-8."
        ) from error
    if not isinstance(target, str):
        raise WorkloadError(f'{file} names no target: add a line like target = "gemmini".')
    return str(folder / target) if target.endswith(".toml") else target


def _unknown(name: str) -> Exception:
    if "/" in name or name in (".", ".."):
        return WorkloadError(
            f"folder {name} does not exist: name a folder with a {WORKLOAD_FILE}, "
            "or a workload like those `tilewright workloads` lists."
        )
    known = [f"{t}:{workload}" for t in target_names() for workload in load_target(t).workloads()]
    hint = "Or name a folder with a workload.toml."
    return UnknownNameError("workload", name, known, hint)
