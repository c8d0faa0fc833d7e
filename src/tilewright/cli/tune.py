"""`tilewright tune`: search the tile sizes of a tensor kernel on this machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tilewright.cli.options import Json, NoColor, Project
from tilewright.cli.tune_result import show_result
from tilewright.cli.tune_workloads import parse_workload
from tilewright.core.budget import Budget
from tilewright.core.budget_text import parse_budget
from tilewright.core.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from tilewright.tuner.tvm.targets import TuningTarget


EPILOG = """
\b
Examples:
  tilewright tune matmul 512 64 1024
  tilewright tune R2 --budget "200 evaluations" --threads 2
  tilewright tune workload.py:make_primfunc --budget "120 s" -o tuned
  tilewright tune M4 --target nvidia/h100
\b
Sizes of a product:      matmul M N K
Sizes of a convolution:  conv2d N C H W FILTERS KERNEL [STRIDE [PADDING]]
Tuning needs the extra:  pip install 'tilewright[tune]'
"""
_OPTIONS = [
    *("--target", "--budget", "--search", "--features", "--space"),
    *(
        "--pretrained",
        "--no-pretrained",
        "--seed",
        "--threads",
        "--fresh",
        "--output",
        "--project",
        "--json",
        "--no-color",
    ),
]
EVALUATIONS = 100
"""Maximum number of measured candidates if the budget contains no number of evaluations."""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    # A negative size is parsed as a size, so that the message is about sizes and not about an
    # unknown option.
    settings = {"ignore_unknown_options": True}
    app.command("tune", epilog=EPILOG, context_settings=settings)(tune)


def tune(
    workload: Annotated[
        list[str],
        typer.Argument(
            metavar="WORKLOAD [SIZE]",
            help="matmul or conv2d followed by sizes, one of the benchmark workloads M0-M5, "
            "R0-R12 and Y0-Y10, or FILE.py:FUNCTION for a function that returns a TVM PrimFunc.",
        ),
    ],
    target: Annotated[
        str,
        typer.Option(
            "--target",
            metavar="TARGET",
            help="What the kernel runs on: cpu, cuda (the GPU of this machine), a GPU by its name, "
            "such as nvidia/h100, or a TVM target in JSON. The device must be in this machine.",
        ),
    ] = "cpu",
    budget: Annotated[
        str,
        typer.Option(
            "--budget",
            metavar="TEXT",
            help='Stop after a number of measured candidates, such as "100 evaluations", or after '
            'a time, such as "120 s", whichever comes first. Without a number of evaluations, '
            f"the limit is {EVALUATIONS}.",
        ),
    ] = f"{EVALUATIONS} evaluations",
    search: Annotated[
        Literal["gradient", "evolutionary", "random"],
        typer.Option(
            metavar="NAME",
            help="The search method: 'gradient' is dynamic gradient descent, 'evolutionary' is "
            "the search of TVM's MetaSchedule, and 'random' chooses candidates at random.",
        ),
    ] = "gradient",
    features: Annotated[
        Literal["analytical", "published", "tvm164"] | None,
        typer.Option(
            metavar="NAME",
            help="Features from which the cost model predicts the speed: 'analytical' (the "
            "default) are closed-form expressions of the tile sizes, 'published' are the "
            "expressions that were published for GPUs, without corrections, and 'tvm164' are the "
            "164 features of MetaSchedule.",
        ),
    ] = None,
    space: Annotated[
        Literal["restricted", "template", "full"] | None,
        typer.Option(
            metavar="NAME",
            help="The schedules that are searched: 'restricted' varies tile sizes with fixed "
            "unrolling, as in the published method (docs/tuner.md); 'template' also varies the "
            "other choices of the template; 'full' is the space of MetaSchedule. The default is "
            "'full' for evolutionary search with tvm164, and otherwise 'restricted'.",
        ),
    ] = None,
    pretrained: Annotated[
        bool | None,
        typer.Option(
            "--pretrained/--no-pretrained",
            help="Start with a cost model that was trained on other workloads and, unless --fresh "
            "is given, on earlier runs of the project. This works only on CPUs, for gradient "
            "search on analytical features. It is then the default if the kernel uses one thread. "
            "With --no-pretrained, the search starts with an untrained cost model, as in the "
            "published method (docs/tuner.md).",
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Seed of all random choices.",
        ),
    ] = 0,
    threads: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Number of CPU threads that the kernel uses; by default 1."
        ),
    ] = None,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh", help="Ignore the measurements that the project stores from earlier searches."
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="Write the results to this folder; by default tuned-WORKLOAD.",
        ),
    ] = None,
    project: Project = Path(),
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Find fast tile sizes for a tensor kernel with TVM.

    The command compiles and measures candidates on this machine and checks their outputs. The
    result is a folder with the compiled library, the schedule trace, the generated source, a TVM
    database and a Python script that runs the kernel. Ctrl-C ends the search and writes the best
    kernel found so far; the same command continues the search.
    """
    for word in workload:
        if word.startswith("-") and not word[1:2].isdigit():
            raise UnknownNameError("option", word.partition("=")[0], _OPTIONS)
    request = parse_workload(workload)
    limits = _limits(budget)
    if search == "random" and features is not None:
        raise InputError(
            f"--features {features} cannot be used with --search random, which has no cost model. "
            "Leave out --features, or use --search gradient or evolutionary."
        )

    from tilewright.cli.output import check_outputs, write_json
    from tilewright.tuner.tvm.loading import require_tvm

    check_outputs(json=json)
    require_tvm()
    from tilewright.cli.tune_progress import TuneProgress
    from tilewright.tuner.tvm.analysis import analyse
    from tilewright.tuner.tvm.result import check_folder
    from tilewright.tuner.tvm.setup import Method, comes_pretrained
    from tilewright.tuner.tvm.targets import parse_target
    from tilewright.tuning.runs import tune as run
    from tilewright.tuning.stored import TuneSettings
    from tilewright.tuning.winner import Winner

    full = search == "evolutionary" and features == "tvm164"
    opened = parse_target(target, threads)
    features = features or "analytical"
    if pretrained is None:
        pretrained = comes_pretrained(opened, search, features)
    method = Method(search, features, space or ("full" if full else "restricted"), pretrained)
    program = request.program()
    flops = analyse(program.function, program.name).workload.flops
    folder = output or Path("tuned-" + re.sub(r"[^A-Za-z0-9]+", "-", program.name).strip("-"))
    check_folder(folder)
    trials = limits.evaluations or EVALUATIONS
    settings = TuneSettings(method, trials, limits.wall_s, seed, fresh)
    peak = _peak_gflops(opened)
    with TuneProgress(trials, flops, peak) as progress:
        result = run(
            program,
            opened,
            settings,
            project=project,
            output=folder,
            on_start=progress.started,
            on_trial=progress.measured,
        )
    show_result(result, progress, folder)
    write_json(json, result.facts)
    if result.interrupted:
        raise typer.Exit(130)
    if not isinstance(result.winner, Winner):
        raise typer.Exit(1)


def _limits(text: str) -> Budget:
    budget = parse_budget(text)
    if budget.of_models != Budget():
        raise InputError(
            f"--budget {text!r} limits language models, but tune uses none. Give a time, a number "
            "of evaluations, or both."
        )
    return budget


def _peak_gflops(target: TuningTarget) -> float:
    """The peak performance of the device, which is measured for a processor; 0 if it is not
    known.
    """
    from tilewright.tuner.device import CpuDevice
    from tilewright.tuner.tvm.peak import measured_peak_gflops

    if isinstance(target.device, CpuDevice) and target.present:
        return measured_peak_gflops(target.target, target.device)
    return target.device.peak_gflops
