"""What a new user meets first: names that do not exist, and what `doctor` and `targets` print."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from toy_cli import Cli

from tilewright.cli import doctor
from tilewright.core.errors import ToolchainMissingError
from tilewright.targets.cuda.target import CudaTarget


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_missing_folder_lists_no_workloads(cli: Cli) -> None:
    refused = cli("optimize", "nothing-of-this-name")
    assert refused.code == 2
    assert "folder nothing-of-this-name does not exist" in refused.err
    assert len(refused.err) < 400


def test_a_workload_without_its_target_is_found(cli: Cli) -> None:
    assert "gemmini:gemm-512x512x512" in cli("optimize", "gemm-512x512x512").err


def test_a_file_is_told_from_a_folder(cli: Cli) -> None:
    Path("kernel.c").write_text("")
    assert "kernel.c is a file" in cli("optimize", "kernel.c").err


def test_a_mistyped_proposer_is_refused_before_anything_is_stored(cli: Cli) -> None:
    refused = cli("optimize", "trainium:gemm-128x512x128", "--proposer", "claude")
    assert refused.code == 2
    for form in ("builtin", "PROVIDER/MODEL", "command:PROGRAM", "mailbox:FOLDER"):
        assert form in refused.err
    assert not Path(".tilewright").exists()


def test_a_file_for_the_best_kernel_is_not_ignored(cli: Cli) -> None:
    refused = cli("optimize", "host-c:softmax-8x8", "-o", "my kernel.c")
    assert refused.code == 2
    assert "best latest -o 'my kernel.c'` writes the best kernel" in refused.err
    assert not Path(".tilewright").exists()


def test_a_project_below_a_file_is_refused(cli: Cli) -> None:
    Path("file").write_text("")
    refused = cli("optimize", "host-c:softmax-8x8", "--project", "file")
    assert "Give --project a folder that you may write to." in refused.err


def test_advice_names_extras_in_full(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    advice = "pip install 'tilewright[tune]'"
    monkeypatch.setattr(doctor, "_tuner", lambda: ("tuner", None, advice))
    monkeypatch.setattr(doctor, "_targets", list)
    assert advice in cli("doctor").out


def test_targets_with_the_same_finding_share_a_row(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    findings: list[doctor.Finding] = [
        ("one: compiler", True, "gcc 12"),
        ("two: compiler", True, "gcc 12"),
        ("two: model", True, "v2"),
    ]
    monkeypatch.setattr(doctor, "_targets", lambda: findings)
    lines = [line.split() for line in cli("doctor", "--json", "found.json").out.splitlines()]
    assert ["ok", "one,", "two:", "compiler", "gcc", "12"] in lines
    assert ["ok", "two:", "model", "v2"] in lines
    written = json.loads(Path("found.json").read_text())["findings"]
    assert [row["part"] for row in written[-3:]] == [part for part, _, _ in findings]


def test_doctor_says_whether_a_part_is_missing_that_every_search_needs(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_targets", list)
    assert "All parts that every search needs are installed." in cli("doctor").out
    monkeypatch.setattr(doctor, "_targets", lambda: [("one: compiler", False, "install gcc")])
    refused = cli("doctor")
    assert refused.code == 1
    assert "Install the parts marked missing." in refused.out


def test_advice_is_given_in_the_words_of_the_command_that_was_typed(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_COMMAND", "./tw")
    assert "`./tw workloads`" in cli("optimize", "nothing-of-this-name").err
    assert "Usage: ./tw" in cli("best", "--help").out


def test_what_is_refused_points_to_the_help_of_its_command(cli: Cli) -> None:
    for words, said in (
        (("best",), "Missing argument 'RUN'. See tilewright best --help."),
        (("runs", "show"), "Missing argument 'RUN'. See tilewright runs show --help."),
        (("optimise",), "Did you mean 'optimize'? See tilewright --help."),
        (("demo", "--seed", "x"), "'--seed': not a whole number. See tilewright demo --help."),
        (("demo", "--jobs", "two"), "'--jobs': not a whole number. See tilewright demo --help."),
        (
            ("serve", "--port", "99999"),
            "'--port': give a number from 0 to 65535. See tilewright serve --help.",
        ),
        (
            ("evaluate", "k.c", "--simulator-timeout", "0"),
            "'--simulator-timeout': give a number of at least 1. See tilewright evaluate --help.",
        ),
    ):
        refused = cli(*words)
        assert refused.code == 2
        assert refused.err.strip().endswith(said)


@pytest.mark.parametrize("group", ["runs", "agent", "cluster", "store"])
def test_a_group_of_commands_called_by_itself_explains_itself(cli: Cli, group: str) -> None:
    explained = cli(group)
    assert explained.code == 0
    assert explained.out == cli(group, "--help").out


def test_the_list_of_commands_cuts_no_sentence_off(cli: Cli) -> None:
    for group in ((), ("runs",), ("agent",), ("cluster",), ("store",)):
        commands = cli(*group, "--help").out.partition("Commands:")[2].partition("\n\n")[0]
        assert commands
        assert "..." not in commands


def test_targets_whose_tools_are_missing_are_listed(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacks(self: CudaTarget) -> dict[str, str]:
        raise ToolchainMissingError("nvcc is not on PATH.")

    monkeypatch.setattr(CudaTarget, "versions", lacks)
    listed = cli("targets", "--full")
    assert listed.code == 0
    assert any(line.startswith("cuda ") for line in listed.out.splitlines())


def test_targets_that_can_check_but_not_time_say_so(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tilewright.targets.amx.support.missing_feature", lambda element: "tiles")
    shown = cli("targets", "--json", str(tmp_path / "targets.json")).out.splitlines()
    line = next(line for line in shown if line.startswith("amx-int8 "))
    assert "checks only: see tilewright doctor" in line
    rows = json.loads((tmp_path / "targets.json").read_text())["targets"]
    found = next(row for row in rows if row["target"] == "amx-int8")
    assert (found["ready"], found["checks"]) == (False, True)


def test_targets_that_can_build_nothing_check_nothing(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacks(self: CudaTarget) -> dict[str, str]:
        raise ToolchainMissingError("nvcc is not on PATH.")

    monkeypatch.setattr(CudaTarget, "versions", lacks)
    lines = cli("targets").out.splitlines()
    line = next(line for line in lines if line.startswith("cuda "))
    assert line.split()[1] == "no:"


def test_targets_that_only_lack_what_is_not_needed_are_ready(cli: Cli) -> None:
    lines = cli("targets").out.splitlines()
    assert next(line for line in lines if line.startswith("trainium ")).split()[1] == "yes"


def test_a_surplus_argument_is_named(cli: Cli) -> None:
    refused = cli("workloads", "cuda")
    assert refused.code == 2
    assert "the command does not accept 'cuda' here" in " ".join(refused.err.split())


def test_a_worker_started_at_a_terminal_does_not_wait_for_requests(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    refused = cli("worker")
    assert refused.code == 2
    assert "optimize TASK --host HOST" in refused.err
