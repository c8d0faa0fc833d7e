"""What every command has: --project, --json and --no-color; and how long lines are broken."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from toy_cli import Cli, World

from tilewright.cli import console, main, wrapping
from tilewright.cli.wrapping import between_words


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


COMMANDS = dict(commands(typer.main.get_command(main.app)))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_the_shared_options(name: str) -> None:
    options = {option for parameter in COMMANDS[name].params for option in parameter.opts}
    shared = {"--project", "--json", "--no-color"}
    if name in ("mcp", "worker"):  # all their answers are JSON, on standard output
        shared.remove("--json")
    assert shared <= options


def test_help_names_arguments_without_their_python_types(cli: Cli) -> None:
    for name in COMMANDS:
        said = cli(*name.split(), "--help").out
        usage = said.splitlines()[0]
        assert not set("{}<>") & set(usage), usage
        assert "[[" not in usage
        assert not re.search(r"<(str|path|int|list)\b", said), name


@pytest.fixture
def searched(world: World, cli: Cli) -> None:
    Path("kernel.c").write_text("void kernel(")
    found = cli("optimize", "toy:digits", "--iterations", "2", "--seed", "1")
    assert found.code == 0, found.err


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        (["best", "latest"], {"run", "trial", "candidate", "latency", "source"}),
        (["report", "latest", "-o", "r.html"], {"run", "file"}),
        (["prompt", "toy:digits"], {"phase", "prompt", "most_tokens"}),
        (["models"], {"providers"}),
        (["runs", "list"], {"runs"}),
        (["runs", "tag", "latest", "a", "b"], {"run", "tags", "note"}),
        (["runs", "note", "latest", "text"], {"run", "tags", "note"}),
        (["runs", "export", "latest", "-o", "t.csv"], {"run", "trials", "file"}),
        (["runs", "delete", "latest", "--yes"], {"run", "trials"}),
        (["init", "new", "--target", "host-c"], None),
    ],
)  # fmt: skip
def test_what_is_printed_is_also_written_as_json(
    searched: None, cli: Cli, words: list[str], fields: set[str] | None
) -> None:
    done = cli(*words, "--json", "out.json")
    if fields is None:  # the toy target has no template
        assert done.code == 2
        return
    assert done.code == 0, done.err
    assert set(json.loads(Path("out.json").read_text())) == fields


def test_json_that_cannot_be_written_is_refused_before_anything_is_done(
    searched: None, cli: Cli
) -> None:
    refused = cli("runs", "delete", "latest", "--yes", "--json", "nowhere/out.json")
    assert refused.code == 2
    assert cli("runs", "show", "latest").code == 0


def test_a_resumed_run_appends_its_events(world: World, cli: Cli) -> None:
    world.interrupt_after = 8
    assert cli("optimize", "toy:digits", "--iterations", "3", "--events", "e.jsonl").code == 130
    world.interrupt_after = None
    before = Path("e.jsonl").read_text().count("RunStarted")
    assert cli("runs", "resume", "latest", "--events", "e.jsonl").code == 0
    assert (before, Path("e.jsonl").read_text().count("RunStarted")) == (1, 2)


def test_errors_break_between_words_on_a_terminal(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    path = "a-folder/with-a-name-that/is-longer/than-a-line-of-the-terminal"
    one_line = cli("check", path).err
    monkeypatch.setattr(wrapping, "is_terminal", lambda stream: True)
    lines = cli("check", path).err.splitlines()
    assert " ".join(lines) == one_line.strip()
    assert any(path in line for line in lines)
    assert all(len(line) <= 40 or " " not in line for line in lines)


@pytest.mark.parametrize(
    "words",
    [
        ["runs", "list"],
        ["runs", "show", "latest", "--trials"],
        ["runs", "compare", "latest", "EARLIER"],
        ["targets"],
        ["workloads"],
        ["models"],
        ["models", "openai/a-model-with-a-long-name-2026-11-22@http://127.0.0.1:8000/v1"],
        ["doctor"],
    ],
    ids=" ".join,
)
def test_tables_fit_80_columns_and_cut_nothing(
    searched: None, cli: Cli, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setattr(console, "PLAIN_WIDTH", 80)
    if "EARLIER" in words:
        assert cli("optimize", "toy:digits", "--iterations", "1", "--seed", "2").code == 0
        (earlier,) = re.findall(r"^(\w{8}) .*", cli("runs", "list").out, re.M)[1:]
        words = [earlier if word == "EARLIER" else word for word in words]
    shown = cli(*words).out
    assert shown
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown
    rows = [line for line in shown.splitlines() if "  " in line]  # sentences are not wrapped
    assert rows
    assert max(map(len, rows)) <= 80


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_colour_of_the_label_takes_no_columns(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    main._complain("a message whose first line has 40 columns")
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown.getvalue()).splitlines() == [
        "error: a message whose first line has 40",
        "columns",
    ]


def test_rows_of_sentences_are_indented_as_their_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    row = "ok  kernel    agrees with the reference in 5 comparisons; 33,128 cycles"
    assert between_words(row, io.StringIO()) == row
    assert between_words(f"{row}\n  short", Terminal()).splitlines() == [
        "ok  kernel    agrees with the reference",
        "              in 5 comparisons; 33,128",
        "              cycles",
        "  short",
    ]
    row = "ok  reference gives the same results in every call"
    assert between_words(row, Terminal()).splitlines()[1] == "              every call"
    row = "  an indented line that does not fit the terminal"
    assert between_words(row, Terminal()).splitlines()[1] == "  terminal"


def test_init_breaks_between_words_on_a_terminal(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tilewright.targets.amx.support.missing_feature", lambda element: "tiles")
    monkeypatch.setenv("COLUMNS", "72")
    monkeypatch.setattr(wrapping, "is_terminal", lambda stream: True)
    done = cli("init", "narrow", "--target", "amx-int8")
    shown = done.out
    assert done.code == 0, done.err
    assert "A search cannot run on this machine" in shown
    assert all(len(line) <= 72 for line in shown.splitlines())
