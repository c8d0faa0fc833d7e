"""Opens the task that a user names: a workload, a folder or a file."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from tilewright.core.codec import to_json
from tilewright.core.errors import TilewrightError, UnknownNameError, WorkloadError
from tilewright.core.files import read_kernel, read_toml
from tilewright.core.plugins import is_target, load_target, target_names
from tilewright.core.records import RunRecord, TargetBrief, content_id
from tilewright.core.roles import OffersTemplates, OpensFiles, Target, Task
from tilewright.core.templates import KernelTemplate, parse_template

WORKLOAD_FILE = "workload.toml"
FILE = ".py"
"""The ending of the name of a file that describes a workload."""
_SHOWN = 200
"""Number of characters of a name that a message shows."""
_SUGGESTED = 4
"""Number of workloads that a message suggests if the name has no target."""


@dataclass(frozen=True, slots=True)
class OpenTask:
    """A task, its target, and the canonical name with which any process can open it again.

    `name` is "target:workload" or a folder's absolute path. If the folder contains a template,
    `template` is its text, and the starting kernel is its first instance.
    """

    name: str
    target: Target
    task: Task
    template: KernelTemplate | None = None

    @property
    def fingerprint(self) -> str:
        """Content hash of workload, starting kernel, inputs and reference."""
        workload = json.dumps(to_json(self.task.workload), sort_keys=True)
        start = self.template.text if self.template else self.task.start
        return content_id(workload, start, self.task.fingerprint)


def target_versions(target: Target) -> dict[str, str]:
    """The versions of tilewright and of the tools of the target, which must be equal on all
    machines of a run.

    Raises `ToolchainMissingError` if tools are missing on this machine.
    """
    return {"tilewright": version("tilewright"), **target.versions()}


def versions_without(versions: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """The versions except those of these names."""
    return {name: version for name, version in versions.items() if name not in names}


def target_for(name: str, settings: Mapping[str, object]) -> Target:
    """The target for which `open_task` opens a task, without opening it."""
    path = Path(name)
    is_file = path.suffix == FILE and _is(Path.is_file, path)
    if name and not is_registered(name) and (is_file or _is(Path.is_dir, path)):
        return load_target(str(settings.get("target") or _target_of_path(path.resolve())))
    return _target_named(name, settings)


def _target_named(name: str, settings: Mapping[str, object]) -> Target:
    """The target of a workload's name, which need not contain the target if the settings do."""
    target, colon, _ = name.partition(":")
    chosen = settings.get("target")
    if not chosen and not colon:
        raise _unknown(name)
    return load_target(str(chosen or target))


def open_task(name: str, settings: Mapping[str, object]) -> OpenTask:
    """Open "target:workload", a folder with a workload.toml, or a file that some target opens.

    `InputError`s say what is wrong.

    With `settings["target"]`, the name or the file of a target, the task is opened for this target,
    and the name of a workload need not contain a target. A folder whose name begins like a
    workload's, with an installed target and a colon, is opened by its path (`./target:folder`).
    """
    folder = Path(name)
    if name and not is_registered(name) and _is(Path.is_dir, folder):
        folder = folder.resolve()
        target = target_for(str(folder), settings)
        _check_settings(target, settings)
        task = target.open_folder(folder, settings)  # refuses unusable files by name
        return OpenTask(str(folder), target, task, _template_in(folder, target))
    if name and not is_registered(name) and folder.suffix == FILE and _is(Path.is_file, folder):
        return _open_file(folder.resolve(), settings)
    return open_workload(name, settings)


def _open_file(file: Path, settings: Mapping[str, object]) -> OpenTask:
    target = target_for(str(file), settings)
    if not isinstance(target, OpensFiles):
        raise WorkloadError(
            f"{file} is a file, but target {target.name} needs a kernel folder. Give the folder "
            f"that contains {WORKLOAD_FILE}."
        )
    _check_settings(target, settings)
    task = target.open_file(file, settings)
    return OpenTask(str(file), target, task, _template_of(task, target))


def _template_of(task: Task, target: Target) -> KernelTemplate | None:
    """The template among those that a task offers whose first instance is its starting kernel."""
    offered = task.templates().values() if isinstance(task, OffersTemplates) else ()
    for text in offered:
        template = parse_template(text, target.brief().language.templates)
        if template is not None and template.instance(template.first) == task.start:
            return template
    return None


def _target_of_files() -> str:
    """The target that opens single files if the user named no target."""
    return next(n for n in target_names() if isinstance(load_target(n), OpensFiles))


def _template_in(folder: Path, target: Target) -> KernelTemplate | None:
    language = target.brief().language
    if language.templates is None:
        return None
    return parse_template(read_kernel(folder / language.file, language), language.templates)


def open_workload(name: str, settings: Mapping[str, object]) -> OpenTask:
    """Open a workload by its name "target:workload"; folders are not looked up."""
    target = _target_named(name, settings)
    spec = name.partition(":")[2] if ":" in name else name
    _check_settings(target, settings)
    if not spec:
        raise _no_workload(target)
    task = target.open(spec, settings)
    return OpenTask(task.workload.name, target, task)


def _check_settings(target: Target, settings: Mapping[str, object]) -> None:
    """Raise `UnknownNameError` if the target does not have a setting, or does not allow its
    value.
    """
    chosen = settings.get("target_settings")
    if not chosen or not isinstance(chosen, Mapping):
        return
    known = target.brief().settings
    for name, value in chosen.items():
        if name not in known:
            raise UnknownNameError(f"{target.name} setting", str(name), known)
        if value not in known[name]:
            raise UnknownNameError(f"value of {name}", str(value), known[name])


def brief_of(run: RunRecord) -> TargetBrief | None:
    """The brief of a run's target, or None if the target is no longer installed."""
    folder = Path(run.task)
    try:
        chosen = run.settings.get("target") or (
            _target_of_path(folder) if folder.is_absolute() else run.task.partition(":")[0]
        )
        return load_target(str(chosen)).brief()
    except TilewrightError:
        return None


def is_registered(name: str) -> bool:
    """Whether a name is that of a registered workload, which has precedence over a folder with this
    name.
    """
    target, colon, _ = name.partition(":")
    return bool(colon) and is_target(target)


def _is(kind: Callable[[Path], bool], path: Path) -> bool:
    try:
        return kind(path)
    except OSError:  # e.g. a name that is too long
        return False


def _target_of_path(path: Path) -> str:
    return _target_of_files() if path.suffix == FILE else target_of(path)


def target_of(folder: Path) -> str:
    """The name of a kernel folder's target, or the path of the file that describes it."""
    file = folder / WORKLOAD_FILE
    try:
        target = read_toml(file).get("target")
    except FileNotFoundError:
        raise WorkloadError(
            f"folder {folder} has no {WORKLOAD_FILE}. Add one that names the target and the "
            "kernel's arguments; reference.py and the kernel must be in the same folder."
        ) from None
    except OSError as error:
        raise WorkloadError(
            f"{file} cannot be read ({error.strerror}). It must be a TOML file in UTF-8."
        ) from error
    if not isinstance(target, str):
        raise WorkloadError(f'{file} names no target. Add a line such as target = "gemmini".')
    return str(folder / target) if target.endswith(".toml") else target


def _no_workload(target: Target) -> WorkloadError:
    """The error for a target's name in the place of a workload, with two examples of workloads."""
    names = list(target.workloads())
    sized = [n for n in names if not re.search(r"[A-Z]", n)] or names  # "gemm-MxNxK" is a pattern
    others = [n for n in sized if n.partition("-")[0] != sized[0].partition("-")[0]]
    examples = [f"{target.name}:{n}" for n in (*sized[:1], *others, *sized[1:])[:2]]
    return WorkloadError(
        f"{target.name} is a target, but the name of a workload must follow it. Write for example "
        f"{' or '.join(examples)}. `tilewright workloads --target {target.name}` lists the "
        "workloads."
    )


def _unknown(name: str) -> WorkloadError:
    if is_target(name):
        return _no_workload(load_target(name))
    if _is(Path.is_file, Path(name)):
        return WorkloadError(
            f"{name} is a file. Give the folder that holds {WORKLOAD_FILE}, or evaluate a single "
            f"kernel with `tilewright evaluate {name} --workload WORKLOAD`."
        )
    near = _near(name)
    meant = f"Did you mean {' or '.join(near)}? Otherwise give" if near else "Give"
    shown = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..."
    kind = "file" if name.endswith(".py") else "folder"
    return WorkloadError(
        f"{kind} {shown or repr(shown)} does not exist, and no workload has this name. {meant} "
        f"a folder with a {WORKLOAD_FILE}, as `tilewright init` makes it, or a workload with its "
        "target, such as gemmini:gemm-512x512x512. `tilewright workloads` lists the workloads."
    )


def _near(name: str) -> list[str]:
    """Kernel folders with a similar name, or else workloads of any target whose names are equal or
    similar to a name without a target.
    """
    folder = Path(name)
    with suppress(OSError, ValueError):
        beside = [p.parent.name for p in folder.parent.glob(f"*/{WORKLOAD_FILE}")]
        if found := difflib.get_close_matches(folder.name, beside, n=1, cutoff=0.7):
            return [str(folder.parent / found[0])]
    known = [f"{t}:{w}" for t in target_names() for w in load_target(t).workloads()]
    same = [full for full in known if full.partition(":")[2] == name]
    return same[:_SUGGESTED] or difflib.get_close_matches(name, known, n=1, cutoff=0.6)
