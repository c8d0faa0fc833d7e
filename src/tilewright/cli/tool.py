"""`tilewright tool`: one step of work on a kernel, by the tools that models and agents use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli import search_options as options
from tilewright.cli.options import Json, NoColor, Project, TargetName
from tilewright.cli.output import check_outputs, write_json, write_text
from tilewright.core.config import Settings

if TYPE_CHECKING:
    from tilewright.core.records import KernelLanguage

EPILOG = """
\b
Examples:
  tilewright tool check kernel.c --workload gemmini:gemm-256x256x256
  tilewright tool evaluate kernel.c --workload gemmini:gemm-256x256x256 \\
      --budget "16 evaluations"
  tilewright tool try a.c b.c c.c --workload gemmini:gemm-256x256x256 \\
      --budget "16 evaluations"
  tilewright tool asm kernel.c --loop 2 --workload host-c:gemm-256x256x256
  tilewright tool rewrite parent --steps "hoist B" -o new.c \\
      --workload gemmini:gemm-256x256x256
"""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("tool", epilog=EPILOG)(tool)


def tool(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="The tool to use: check, evaluate, try, profile, asm, facts, tried, show, "
            "rewrites, rewrite or submit.",
        ),
    ],
    workload: Annotated[
        str | None,
        typer.Option(
            "--workload",
            metavar="WORKLOAD|FOLDER",
            help="What the kernel must compute: a workload that `tilewright workloads` lists, or "
            "a kernel folder. Agents that a search has started may omit this option.",
        ),
    ] = None,
    kernels: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KERNEL",
            help="Files with kernels, or ids of kernels in the run. The words start, parent and "
            "best stand for the starting kernel, the kernel that --parent names and the fastest "
            "kernel.",
        ),
    ] = None,
    parent: Annotated[
        str | None,
        typer.Option(
            "--parent",
            metavar="ID",
            help="Id of the kernel to work on; by default the fastest kernel of the run.",
        ),
    ] = None,
    steps: Annotated[
        str | None,
        typer.Option(
            "--steps",
            metavar="STEPS",
            help="The steps that the tool `rewrite` applies, separated by ';'.",
        ),
    ] = None,
    loop: Annotated[
        str | None,
        typer.Option(
            "--loop",
            metavar="WHICH",
            help="What the tool `asm` lists: a loop by its number or by a line of its source, such "
            "as 'line 12'; the code of some source lines, such as 'lines 30-45'; or 'all'.",
        ),
    ] = None,
    note: Annotated[
        str | None,
        typer.Option(
            "--note",
            metavar="TEXT",
            help="What you changed in the kernel; the text is stored with the trial.",
        ),
    ] = None,
    budget: options.BudgetText = None,
    target: TargetName = None,
    target_settings: options.TargetSettings = None,
    project: Project = Path(),
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write the kernel that the tool returns to this file.",
        ),
    ] = None,
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Apply one tool to a kernel, as agents do.

    Models and agents use the same tools (docs/agents.md). Each evaluated kernel becomes a trial of
    a run in the project folder, and later calls with the same workload and budget continue this
    run. `check`, `asm` and `facts` need no run. If the kernel is a file, `rewrites` and `rewrite`
    need no run either.
    """
    import os

    from tilewright.agents.protocol import SOCKET_VARIABLE, use
    from tilewright.cli.console import write_out
    from tilewright.core.errors import InputError
    from tilewright.tools.toolbox import tool_named

    tool_named(name)
    check_outputs(json=json, output=output)
    socket = os.environ.get(SOCKET_VARIABLE)
    if workload is not None:
        chosen = options.parse_target_settings(target_settings or ())
        settings = replace(
            Settings(target=target, target_settings=chosen), **options.limits(budget)
        )
        said = _with_run(
            workload,
            settings,
            project,
            parent,
            name,
            kernels or (),
            {"note": note, "steps": steps, "loop": loop},
        )
    elif socket is not None:
        said = use(
            socket,
            name,
            _arguments(name, kernels or (), {"note": note, "steps": steps, "loop": loop}),
        )
    else:
        raise InputError("tool needs a workload. Add --workload WORKLOAD or --workload FOLDER.")
    answer = said["answer"]
    if said["refused"]:
        raise InputError(str(answer["reason"]))
    write_json(json, answer)
    if "source" in answer and output:
        write_text(output, answer["source"])
    else:
        write_out(said["text"] + "\n")


def _with_run(
    workload: str,
    settings: Settings,
    project: Path,
    parent: str | None,
    name: str,
    kernels: Sequence[str],
    texts: Mapping[str, str | None],
) -> Mapping[str, Any]:
    """The answer of a tool that works on a run of the project."""
    from tilewright.tools.text import said
    from tilewright.workbench import workbench

    with workbench(workload, settings, project=project, parent=parent) as bench:
        given = _arguments(name, kernels, texts, bench.target.language)
        return said(bench.call(name, given))


def _arguments(
    name: str,
    kernels: Sequence[str],
    texts: Mapping[str, str | None],
    language: KernelLanguage | None = None,
) -> dict[str, Any]:
    """The arguments of the call, without those that were not given."""
    from tilewright.core.errors import InputError
    from tilewright.tools.toolbox import tool_named

    given = [_kernel(kernel, language) for kernel in kernels]
    arguments: dict[str, Any] = dict(texts)
    if any(parameter.many for parameter in tool_named(name).parameters):
        arguments["kernels"] = [{"kernel": kernel} for kernel in given]
    elif len(given) > 1:
        raise InputError(f"the tool {name} needs one kernel, but {len(given)} were given.")
    else:
        arguments["kernel"] = given[0] if given else None
    return {key: value for key, value in arguments.items() if value}


def _kernel(named: str, language: KernelLanguage | None) -> str:
    """A kernel as an argument of a tool: the text of the file with this name if it exists, and
    otherwise the name.
    """
    from tilewright.core.files import read_kernel

    path = Path(named)
    return read_kernel(path, language) if path.exists() or path.suffix else named
