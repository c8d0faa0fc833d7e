"""`tilewright doctor`: what is installed, what is missing and how to get it."""

from __future__ import annotations

import platform
from pathlib import Path

import typer

from tilewright.cli.options import Json, NoColor, Project, as_started
from tilewright.cli.output import check_outputs, write_json
from tilewright.cli.wrapping import say_sentence
from tilewright.core.files import resolved

Finding = tuple[str, bool | None, str]
"""Name of a part, whether it is usable (None: missing but optional), version or how to get it."""


_PART_COLUMNS = 26
"""The widest column of parts with which the other column fits a terminal of 80 columns."""
_NOTHING_MISSING = "All parts that every search needs are installed. Parts marked - are optional."
_REQUIRED_MISSING = "Install the parts marked missing. Parts marked - are optional."


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("doctor")(doctor)


def doctor(project: Project = Path(), json: Json = None, no_color: NoColor = False) -> None:
    """Say what is installed, and how to install what is missing.

    The exit code is 1 if something is missing that every search needs.
    """
    from rich.table import Table
    from rich.text import Text

    from tilewright.cli.console import results

    check_outputs(json=json)
    findings = [
        _python(),
        _project_folder(project),
        *_database_server(project),
        _sandbox(),
        _tuner(),
        *_targets(),
    ]
    table = Table("", box=None, pad_edge=False)
    table.add_column("part", max_width=_PART_COLUMNS)
    table.add_column("version, or how to get it", overflow="fold")
    for name, usable, text in _merged(findings):
        mark = {True: "[green]ok[/]", False: "[red]missing[/]", None: "-"}[usable]
        table.add_row(mark, name, Text(as_started(text)))
    results().print(table)
    missing = any(usable is False for _, usable, _ in findings)
    say_sentence(_REQUIRED_MISSING if missing else _NOTHING_MISSING)
    rows: list[dict[str, object]] = [
        {"part": name, "usable": usable, "text": text} for name, usable, text in findings
    ]
    write_json(json, {"findings": rows})
    if missing:
        raise typer.Exit(1)


def _merged(findings: list[Finding]) -> list[Finding]:
    """The findings, with one row for targets that have the same finding about the same part."""
    targets: dict[tuple[str, bool | None, str], list[str]] = {}
    for name, usable, text in findings:
        target, _, part = name.rpartition(": ")
        targets.setdefault((part, usable, text), []).append(target)
    return [
        (f"{', '.join(names)}: {part}" if any(names) else part, usable, text)
        for (part, usable, text), names in targets.items()
    ]


def _python() -> Finding:
    from tilewright import __version__

    return "tilewright", True, f"{__version__} on Python {platform.python_version()}"


def _project_folder(project: Path) -> Finding:
    """Whether runs could be stored in `project`, which is created when it is first needed."""
    from tempfile import TemporaryFile

    folder = resolved(project)
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with TemporaryFile(dir=existing):
            return "project folder", True, str(folder)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        return (
            "project folder",
            False,
            (f"{folder} cannot be written ({reason}); choose another folder with --project"),
        )


def _database_server(project: Path) -> list[Finding]:
    """Whether the database server that the project names, if any, can be used."""
    from tilewright.core.errors import TilewrightError
    from tilewright.storage.project import describe_server

    try:
        found = describe_server(project)
    except TilewrightError as error:
        return [("database", False, str(error))]
    return [("database", True, found)] if found else []


def _sandbox() -> Finding:
    """The strongest sandbox that is available for compilers and native kernels."""
    from tilewright.sandbox import find_sandbox
    from tilewright.sandbox.control_group import parent_group

    name = find_sandbox().name
    weak = name.startswith("rlimits")
    text = name
    if weak:
        text += ": only resource limits restrict kernels; install bubblewrap, or allow Landlock"
    text += "; memory and processes are limited by " + (
        "control groups"
        if parent_group()
        else "polling ten times a second, because no cgroup v2 is available"
    )
    return "sandbox", None if weak else True, text


def _tuner() -> Finding:
    """Whether the packages of `tilewright tune` are installed; they are not imported."""
    import shutil
    from importlib.util import find_spec

    from tilewright.tuner.tvm.loading import INSTALL, tvm_version

    missing = [module for module in ("tvm", "xgboost") if find_spec(module) is None]
    if missing:
        return "tuner", None, f"{' and '.join(missing)} not installed; {INSTALL}"
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        return (
            "tuner",
            None,
            ("kernels cannot be linked without a C++ compiler; install g++ or clang++"),
        )
    return "tuner", True, f"TVM {tvm_version()}"


def _targets() -> list[Finding]:
    """Every target's own findings, prefixed by its name."""
    from tilewright.core.plugins import load_target, target_names

    return [
        (f"{name}: {part}", usable, text)
        for name in target_names()
        for part, usable, text in load_target(name).doctor()
    ]
