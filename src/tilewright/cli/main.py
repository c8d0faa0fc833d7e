"""The `tilewright` command: registers the commands and turns errors into one sentence."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import typer
from typer.exceptions import TyperException

from tilewright.cli import (
    best,
    bundle,
    demo,
    doctor,
    evaluate,
    models,
    optimize,
    preflight,
    prompt,
    report,
    rewrite,
    runs,
    targets,
    tune,
    tune_compare,
    workloads,
)
from tilewright.cli.options import show_help_without_command
from tilewright.core.errors import TilewrightError

EPILOG = """
\b
Start here:
  tilewright doctor                              is everything installed?
  tilewright demo                                the whole job in 90 seconds
  tilewright optimize gemmini:gemm-512x512x512   a workload of your choice
"""

app = typer.Typer(
    name="tilewright",
    help="Make kernels for tensor accelerators fast, with every step checked and timed.",
    epilog=EPILOG,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (
    *(
        demo,
        optimize,
        tune,
        tune_compare,
        evaluate,
        preflight,
        bundle,
        rewrite,
        best,
        report,
        targets,
        workloads,
        models,
        prompt,
    ),
    doctor,
):
    module.register(app)
app.add_typer(runs.app, name="runs")


def _show_version(wanted: bool) -> None:
    if wanted:
        from tilewright import __version__

        typer.echo(f"tilewright {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _global_options(
    context: typer.Context,
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Print the version."
    ),
) -> None:
    show_help_without_command(context)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 failed, 2 bad input, 130 interrupted."""
    try:
        code = app(args=arguments, prog_name="tilewright", standalone_mode=False)
    except TilewrightError as error:
        _complain(str(error))
        code = error.exit_code
    except TyperException as error:
        _complain(f"{error.format_message().rstrip('.')}. See tilewright --help.")
        code = error.exit_code
    except typer.Abort:
        code = 130
    except OSError as error:
        reason = error.strerror or type(error).__name__
        _complain(f"the system refused: {reason}; the details are in {_write_crash_log()}")
        code = 1
    except Exception as error:
        log = _write_crash_log()
        _complain(f"unexpected {type(error).__name__}; please report it with the details in {log}")
        code = 1
    sys.exit(code if isinstance(code, int) else 0)


def _complain(message: str) -> None:
    """One line on stderr; red only where a person reads it and colour is welcome."""
    plain = os.environ.get("NO_COLOR")
    label = "error:" if plain else typer.style("error:", fg="red", bold=True)
    one_line = " ".join(message.split())
    typer.echo(f"{label} {one_line}", err=True)


def _write_crash_log() -> Path:
    """Keep the traceback out of the terminal but not out of reach."""
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile(
        "w", prefix="tilewright-error-", suffix=".log", delete=False
    ) as log:
        log.write(f"command: {' '.join(sys.argv)}\n")
        traceback.print_exc(file=log)
    return Path(log.name)
