"""`tilewright init`: a folder for a kernel of your own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.options import Json, NoColor, UnusedProject, as_started, command_text
from tilewright.cli.output import check_outputs, json_text, write_json
from tilewright.cli.wrapping import say_sentence
from tilewright.core.errors import InputError, OutputError

EPILOG = """
\b
Examples:
  tilewright init my-kernel --target gemmini
  tilewright init my-softmax --target host-c \\
      --from-function softmax.py:softmax
  tilewright init --schema > workload.schema.json
"""
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("init", epilog=EPILOG)(init)


def init(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The folder to create.", show_default=False)
    ] = "",
    target: Annotated[
        str,
        typer.Option(
            "--target",
            metavar="NAME|FILE",
            help="The target that the kernel runs on: a name that `tilewright targets` lists, or a "
            ".toml file that describes a target.",
        ),
    ] = "",
    from_function: Annotated[
        str,
        typer.Option(
            "--from-function",
            metavar="FILE.py:NAME",
            help="Use this numpy or torch function as the reference. The file must also define "
            "example_inputs(), which returns the arrays of one call. The kernel's arguments get "
            "the shapes and types of these arrays. The body of the new kernel is empty; you "
            "write it.",
        ),
    ] = "",
    schema: Annotated[
        bool,
        typer.Option(
            "--schema", help="Print the JSON Schema of workload.toml and create no folder."
        ),
    ] = False,
    project: UnusedProject = Path(),
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Create a folder for a kernel of your own.

    The folder contains a kernel, a reference that computes the correct results, and workload.toml,
    which describes the shapes and types of the kernel's arrays. Without --from-function, the kernel
    computes a small matrix product. You can optimise this kernel before you replace it with a
    kernel of your own.
    """
    from tilewright.cli.capabilities import uncheckable, untimed
    from tilewright.core.plugins import load_target

    check_outputs(json=json)
    if schema:
        from tilewright.parts.workload_schema import SCHEMA

        typer.echo(json_text(SCHEMA), nl=False)
        write_json(json, SCHEMA)
        return
    folder = _new_folder(name, target)
    files = _files(folder, target, from_function)
    try:
        folder.mkdir(parents=True)
        for file, text in files.items():
            (folder / file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {(error.strerror or '').lower()}.") from error
    kernel = next(file for file in files if file not in ("workload.toml", "reference.py"))
    say_sentence(f"wrote {', '.join(str(folder / file) for file in files)}")
    if from_function:
        typer.echo(f"write the kernel   {folder / kernel}")
    typer.echo(f"check it           {command_text('check', str(folder))}")
    chosen = load_target(target)
    reason, missing = untimed(chosen), uncheckable(chosen)
    if reason is None:
        budget = command_text("optimize", str(folder), "--budget", "60 s")
        typer.echo(f"make it faster     {budget}")
    else:
        tried = command_text("evaluate", str(folder / kernel), "--workload", str(folder))
        typer.echo(f"check a change     {tried}")
        say_sentence(f"A search cannot run on this machine: {as_started(reason)}.")
    if missing is not None:
        say_sentence(f"Before you check it: {missing}")
    write_json(json, {"folder": str(folder), "files": list(files)})


def _new_folder(name: str, target: str) -> Path:
    from tilewright.core.plugins import target_names

    folder = Path(name)
    if not name or not target:
        missing = "a name for the folder" if not name else "--target"
        raise InputError(
            f"init needs {missing}, for example: {command_text('init', 'my-kernel')} --target "
            f"gemmini. The targets are {', '.join(target_names())}."
        )
    if folder.exists():
        raise InputError(f"{folder} exists already. Choose another name, or remove it first.")
    if _NAME.fullmatch(folder.name) is None:
        raise InputError(
            f"{folder.name!r} cannot be the name of a kernel folder. Use only letters, digits, "
            "'_', '.' and '-'."
        )
    return folder


def _files(folder: Path, target: str, from_function: str) -> Mapping[str, str]:
    from tilewright.core.plugins import load_target
    from tilewright.core.roles import ProvidesFolderTemplate
    from tilewright.parts import folder_from_function, new_folder

    chosen = load_target(target)
    if not isinstance(chosen, ProvidesFolderTemplate):
        raise InputError(
            f"target {chosen.name} has no example kernel to begin with. Write workload.toml, "
            "reference.py and the kernel by hand, as docs/targets.md explains."
        )
    template, language = chosen.template(), chosen.brief().language
    named = str(Path(target).resolve()) if target.endswith(".toml") else target
    if not from_function:
        task = chosen.open(template.workload, {})
        return new_folder.from_template(
            folder.name, named, task.workload, task.start, language, template
        )
    file, colon, function = from_function.rpartition(":")
    if not colon or not function.isidentifier():
        raise InputError(
            f"--from-function {from_function!r} names no function. Write FILE.py:NAME, for "
            "example softmax.py:softmax."
        )
    return folder_from_function.from_function(
        folder.name, named, Path(file), function, language, template.skeleton
    )
