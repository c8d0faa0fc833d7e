"""The `tilewright` command: registers the commands and turns errors into one sentence."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Any

import typer
from typer.exceptions import TyperException
from typer.main import get_command

from tilewright.cli import (
    STARTED,
    agent,
    best,
    bundle,
    check,
    cluster,
    demo,
    doctor,
    evaluate,
    experiment,
    init,
    mcp,
    models,
    optimize,
    preflight,
    prompt,
    report,
    rewrite,
    runs,
    serve,
    store,
    targets,
    tool,
    tune,
    tune_compare,
    worker,
    workloads,
)
from tilewright.cli.options import (
    STARTED_BY,
    as_started,
    command_text,
    show_help_without_command,
)
from tilewright.cli.plain_help import use_plain_help
from tilewright.cli.wrapping import between_words
from tilewright.core.errors import InputError, TilewrightError
from tilewright.core.text import plain_text

EPILOG = """
\b
Start here:
  tilewright doctor                              is everything installed?
  tilewright demo                                a complete search in 90 seconds
  tilewright optimize gemmini:gemm-512x512x512   a workload of your choice
"""

_MAX_MESSAGE = 2000
"""Maximum number of characters of a printed error, because names and logs in it can be very
long.
"""


def _pasteable(epilog: str) -> str:
    """The examples, with the command written as it was started (`tilewright` or `./tw`)."""
    return epilog.replace("  tilewright ", f"  {command_text()} ")


_PLAIN = (
    (
        re.compile(r"(?<=: )'.*' is not a valid int(?: range)?(?=\.)", re.DOTALL),
        "not a whole number",
    ),
    (re.compile(r"(?<=: )'.*' is not a valid float(?: range)?(?=\.)", re.DOTALL), "not a number"),
    (re.compile(r"\S+ is not in the range x>=(\S+)(?=\.$)"), r"give a number of at least \1"),
    (re.compile(r"\S+ is not in the range x<=(\S+)(?=\.$)"), r"give a number of at most \1"),
    (re.compile(r"\S+ is not in the range (\S+)<=x<=(\S+)(?=\.$)"), r"give a number from \1 to \2"),
)
"""Messages of the command-line library, with plainer ones."""
_SURPLUS = re.compile(r"^Got unexpected extra argument\(s\) \((.*)\)$", re.DOTALL)
_OPTION = re.compile(r"-[a-z]|--(?!no-)[a-z-]+")
"""Names of options with a value. After an option such as --no-color, an empty text may be an
argument, for instance of `tilewright runs note`.
"""
_MAX_NAME = 100
_LEAST_OPEN_FILES = 256
"""Number of files that a command which evaluates kernels must be able to open at the same time."""
_EVALUATE = (
    "check", "cluster", "demo", "evaluate", "experiment", "mcp", "optimize", "preflight", "tool",
    "tune", "tune-compare", "verify", "worker",
)  # fmt: skip
"""The commands that evaluate kernels, apart from `runs resume`."""
_OF_NAMES = (errno.ENAMETOOLONG, errno.ELOOP)
"""System errors for names that are too long, and for links that refer to one another."""

app = typer.Typer(
    name="tilewright",
    help="Search for faster kernels for tensor accelerators. tilewright checks and times every "
    "new kernel.",
    epilog=_pasteable(EPILOG),
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (
    *(
        demo,
        init,
        check,
        optimize,
        experiment,
        tune,
        tune_compare,
        evaluate,
        preflight,
        bundle,
        rewrite,
        tool,
        mcp,
        best,
        report,
        serve,
        targets,
        workloads,
        models,
        prompt,
        worker,
    ),
    doctor,
):
    module.register(app)
app.add_typer(runs.app, name="runs")
app.add_typer(agent.app, name="agent")
app.add_typer(cluster.app, name="cluster")
app.add_typer(store.app, name="store")
for part in (app, runs.app, agent.app, cluster.app, store.app):
    use_plain_help(part)
for group in (runs.app, agent.app, cluster.app, store.app):
    group.callback(invoke_without_command=True)(show_help_without_command)
for registered in app.registered_commands:
    registered.epilog = _pasteable(registered.epilog or "")


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
    from tilewright.cli.pyproject import defaults

    context.default_map = defaults(context.command)


@cache
def _commands() -> Any:
    """All commands. Cached, because making them takes 50 ms."""
    return get_command(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 failed, 2 bad input, 130 interrupted."""
    _open_closed_streams()
    try:
        _require_folder()
        given = sys.argv[1:] if arguments is None else arguments
        _require_open_files(given)
        _require_text(given)
        began = STARTED if arguments is None else monotonic()
        name = _program_name(given)
        code = _commands()(args=arguments, prog_name=name, standalone_mode=False, obj=began)
    except TilewrightError as error:
        _complain(str(error))
        code = error.exit_code
    except TyperException as error:
        _complain(f"{_as_sentence(error)} See {_help_of(error)}.")
        code = error.exit_code
    except typer.Abort:
        code = 130
    except RecursionError:
        _complain(
            "the input cannot be read because something in it is nested too deeply, for example "
            f"parentheses in a kernel. The details are in {_write_crash_log()}"
        )
        code = 2
    except OSError as error:
        if error.errno in _OF_NAMES:
            name = str(error.filename or "")[:_MAX_NAME]
            _complain(
                f"{name!r} cannot be the name of a file ({error.strerror}). Give another name."
            )
            sys.exit(2)
        from tilewright.evaluation.disk import full_disk

        full = full_disk(error)
        if full is not None:
            _complain(str(full))
            sys.exit(full.exit_code)
        reason = error.strerror or type(error).__name__
        _complain(
            f"the operating system reported an error: {reason}. The details are in "
            f"{_write_crash_log()}"
        )
        code = 1
    except Exception as error:
        log = _write_crash_log()
        _complain(
            f"tilewright failed with an unexpected {type(error).__name__}. Please report "
            f"this error with the details in {log}"
        )
        code = 1
    sys.exit(code if isinstance(code, int) else 0)


def _open_closed_streams() -> None:
    """Read from and write to the null device where the standard input, output or error is closed.
    The next opened file, such as the database, would otherwise become that stream.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # this gets the lowest free descriptor
            setattr(sys, name, os.fdopen(opened, "w" if descriptor else "r", closefd=False))


def _require_folder() -> None:
    """Raise `InputError` if the working directory has been deleted."""
    try:
        os.getcwd()  # noqa: PTH109 (pathlib would raise the same error)
    except FileNotFoundError:
        raise InputError(
            "the working directory has been deleted, so no file can be found in it. Change to "
            "another folder, for example with `cd ~`, and repeat the command."
        ) from None


def _require_open_files(arguments: Sequence[str]) -> None:
    """Let this process open as many files as a command that evaluates kernels needs. Raise
    `InputError` if this is not allowed, and the command evaluates kernels.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if not 0 <= soft < _LEAST_OPEN_FILES:
        return
    if not 0 <= hard < _LEAST_OPEN_FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_LEAST_OPEN_FILES, hard))
    elif _evaluates(arguments):
        raise InputError(
            f"this shell limits processes to {hard} open files, but tilewright needs "
            f"{_LEAST_OPEN_FILES}. Use a shell with a higher limit (`ulimit -n`)."
        )


def _evaluates(arguments: Sequence[str]) -> bool:
    """Whether these arguments are those of a command that evaluates kernels."""
    if not {"-h", "--help"}.isdisjoint(arguments):
        return False
    return list(arguments[:2]) == ["runs", "resume"] or any(
        command in _EVALUATE for command in arguments[:1]
    )


def _program_name(arguments: Sequence[str]) -> str:
    """The command as it was started. For shell completion, it is the last part of the path alone:
    shells find completions by it, and it becomes part of the name of an environment variable, which
    may not contain the `./` of `./tw`.
    """
    name = Path(os.environ.get(STARTED_BY, "tilewright")).name
    completes = f"_{name}_COMPLETE".replace("-", "_").upper() in os.environ
    if completes or not {"--show-completion", "--install-completion"}.isdisjoint(arguments):
        return name
    return command_text()


def _as_sentence(error: TyperException) -> str:
    """The message of the command-line library, in plainer words if we have them."""
    message = error.format_message()
    for theirs, ours in _PLAIN:
        message = theirs.sub(ours, message)
    message = _SURPLUS.sub(
        r"the command does not accept '\1' here. Remove it, or write an option before it.", message
    )
    return message if message.endswith(("?", ".")) else f"{message}."


def _help_of(error: TyperException) -> str:
    """The command that prints help for the command which reported the error."""
    context = getattr(error, "ctx", None)
    return f"{context.command_path if context else command_text()} --help"


def _require_text(arguments: Sequence[str]) -> None:
    """Raise `InputError` for an argument that is not valid text, and for an empty option."""
    for before, argument in pairwise(("", *arguments)):
        option = argument[:-1] if argument.endswith("=") else "" if argument else before
        if _OPTION.fullmatch(option):
            raise InputError(
                f"the text after {option} is empty. Give a value, or leave out the option."
            )
        try:
            argument.encode()
        except UnicodeEncodeError:
            shown = plain_text(argument[:_MAX_NAME])
            raise InputError(
                f"argument {shown!r} is not text in UTF-8. Write it in UTF-8."
            ) from None


def _complain(message: str) -> None:
    """Print one line on stderr. On a terminal, the line is wrapped between words, and red unless
    colours are disabled.
    """
    one_line = as_started(" ".join(plain_text(message[:_MAX_MESSAGE]).split()))
    text = between_words(f"error: {one_line}", sys.stderr).removeprefix("error:")
    # The label is coloured after the line is wrapped, because colour codes would count as columns.
    plain = os.environ.get("NO_COLOR")
    label = "error:" if plain else typer.style("error:", fg="red", bold=True)
    typer.echo(f"{label}{text}", err=True)


def _write_crash_log() -> Path:
    """Write the traceback to a log file instead of the terminal."""
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile(
        "w", prefix="tilewright-error-", suffix=".log", delete=False
    ) as log:
        log.write(f"command: {' '.join(sys.argv)}\n")
        traceback.print_exc(file=log)
    return Path(log.name)
