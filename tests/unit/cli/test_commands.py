import json
import os
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toy_cli import Cli, Result, World

from tilewright import run
from tilewright.core.records import Candidate, Trial
from tilewright.storage.project import open_project
from tilewright.testing.runs import measured, run_record
from tilewright.testing.toy import START, digits_of

OPTIMIZE = ("optimize", "toy:digits", "--iterations", "3", "--seed", "1")
JSON_FIELDS = {
    "workload", "target", "verdict", "baseline_latency", "best_latency",
    "unit", "quantity", "speedup",
    "best_utilization", "best_precision", "warnings", "baselines", "evaluations", "wall_s", "seed",
    "versions", "run",
    "status", "stop_reason", "confirmed", "unconfirmed", "left_alone",
    "model_calls", "model_tokens", "model_usd", "proposals", "agents",
}  # fmt: skip


def test_optimize_prints_the_result_and_writes_json_and_report(
    world: World, cli: Cli, tmp_path: Path
) -> None:
    result = cli(*OPTIMIZE, "--json", "a.json", "--report", "a.html")
    assert result.code == 0
    assert "as fast as the starting kernel" in result.out
    assert "simulated cycles" in result.out
    assert "lower digit" in result.out
    assert "a.html" in result.out
    assert "iteration 3 of 3" in result.err
    written = json.loads(Path("a.json").read_text())
    assert set(written) == JSON_FIELDS
    assert written["baseline_latency"] == 235
    assert (written["unit"], written["quantity"]) == ("cycles", "simulated")
    assert written["speedup"] == 235 / written["best_latency"] > 1
    assert (written["workload"], written["verdict"], written["seed"]) == (
        "toy:digits",
        "correct",
        1,
    )
    assert written["evaluations"] == len(world.evaluated)
    assert "<!doctype html>" in Path("a.html").read_text()


def test_a_budget_of_one_evaluation_is_told_in_words(world: World, cli: Cli) -> None:
    said = " ".join(cli("optimize", "toy:digits", "--budget", "1 evaluations").out.split())
    assert "the budget of 1 evaluation is spent" in said


def test_failed_steps_of_proposers_are_told_at_the_end(world: World, cli: Cli) -> None:
    run_id = json.loads(_written(cli(*OPTIMIZE, "--json", "a.json")))["run"]
    assert "of a proposer failed" not in cli("runs", "show", run_id).out
    for error, last in (
        ("ValueError: first", "ValueError: first"),
        ("Top\nKeyError: '[/b]' \x1b[31m\n", "KeyError: '[/b]'"),
    ):
        with closing(run.open_project(Path())) as storage:
            log = {"iteration": 1, "parent": "p", "log": error}
            storage.append_event(run_id, "ProposalFailed", log)
        shown = " ".join(cli("runs", "show", run_id).out.split())
        assert f"The last error: {last}" in shown
    assert "warning: 2 steps of proposers failed" in shown


def test_best_show_list_and_report_find_the_run(world: World, cli: Cli) -> None:
    run_id = json.loads(_written(cli(*OPTIMIZE, "--json", "a.json")))["run"]
    best = cli("best", run_id[:4], "-o", "kernel.txt")
    assert best.code == 0
    source = Path("kernel.txt").read_text()
    assert sum(digits_of(source)) < sum(digits_of(START))
    assert cli("best", "latest").out == source
    assert run_id in cli("runs", "list").out
    shown = cli("runs", "show", "latest", "--json", "b.json")
    assert "as fast as the starting kernel" in shown.out
    assert json.loads(Path("b.json").read_text()) == json.loads(Path("a.json").read_text())
    assert cli("report", run_id).code == 0
    assert Path(f"tilewright-{run_id}.html").exists()


def test_ctrl_c_ends_with_the_best_so_far_and_the_run_goes_on(world: World, cli: Cli) -> None:
    world.interrupt_after = 10
    stopped = cli(*OPTIMIZE, "--json", "a.json")
    assert stopped.code == 130
    assert "the user interrupted the search" in stopped.out
    run_id = json.loads(Path("a.json").read_text())["run"]
    assert f"tilewright runs resume {run_id}" in stopped.out
    world.interrupt_after = None
    resumed = cli("runs", "resume", run_id)
    assert resumed.code == 0
    assert "all 3 iterations are done" in resumed.out
    assert len(world.evaluated) == len(set(world.evaluated))
    again = cli("runs", "resume", run_id)
    assert again.code == 2
    assert "is finished" in again.err


def test_an_unwritable_output_is_refused_before_anything_is_spent(world: World, cli: Cli) -> None:
    for option in ("--json", "--report"):
        result = cli(*OPTIMIZE, option, "missing/out")
        assert result.code == 2
        assert "no such folder" in result.err
    assert world.executors == 0
    assert not Path(".tilewright").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("optimize", "toy:digits", "--budget", "soon"), "the budget 'soon' cannot be read"),
        (("optimize", "toy:digits", "--beam", "0"), "setting beam is 0"),
        (("optimize", "toy:digits", "--dropout", "1"), "setting dropout is 1.0"),
        (("optimize", "toy:digits", "--beam", "many"), "--beam"),
        (("optimize", "toy:digits", "--jobs", "0"), "--jobs"),
        (("optimize", "no/such/folder"), "does not exist"),
        (("optimize",), "Missing argument"),
        (("optimise",), "Did you mean 'optimize'?"),
        (("evaluate", "missing.c", "--workload", "toy:digits"), "missing.c cannot be read"),
        (("best", "latest"), "no runs of tilewright"),
        (("runs", "resume", "latest"), "no runs of tilewright"),
        (("optimize", "toy:digits", "--project", "/proc/self/x"), "cannot be created"),
        (("optimize", "toy:digits", "--host", ""), "the text after --host is empty"),
        (("optimize", "toy:digits", "--output="), "the text after --output is empty"),
        (("best", "latest", "-o", ""), "the text after -o is empty"),
        (("optimize", "toy:digits", "--share", "3"), "but neither takes part"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    world: World, cli: Cli, arguments: tuple[str, ...], words: str
) -> None:
    result = cli(*arguments)
    assert result.code == 2
    assert result.err.startswith("error: ")
    assert words in result.err
    assert len(result.err.splitlines()) == 1
    assert result.out == ""


def test_a_defect_gives_a_log_file_instead_of_a_traceback(
    world: World, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: Any, **options: Any) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(run, "optimize", broken)
    result = cli(*OPTIMIZE)
    assert result.code == 1
    assert "unexpected ZeroDivisionError" in result.err
    assert "secret detail" not in result.err
    log = Path(result.err.split()[-1])
    assert "secret detail" in log.read_text()
    log.unlink()


def test_evaluate_tells_verdict_and_numbers(world: World, cli: Cli) -> None:
    Path("good.toy").write_text("toy 1 2 3 4 5")
    good = cli("evaluate", "good.toy", "--workload", "toy:digits", "--json", "a.json")
    assert good.code == 0
    assert "correct" in good.out
    written = json.loads(Path("a.json").read_text())
    assert (written["verdict"], written["latency"], written["failure"]) == ("correct", 155, None)
    assert (written["warnings"], written["baselines"]) == ([], {})
    Path("bad.toy").write_text("toy -1 2 3 4 5")
    bad = cli("evaluate", "bad.toy", "--workload", "toy:digits", "--json", "a.json")
    assert bad.code == 1
    assert "the kernel fails its check (wrong result)" in bad.out
    assert "bad.toy:1: toy -1 2 3 4 5" in bad.out
    written = json.loads(Path("a.json").read_text())
    assert written["verdict"] == "wrong_result"
    assert written["latency"] is None
    assert written["failure"]["log"] == "a digit is below zero"


def test_a_setting_that_the_target_does_not_have_is_refused(world: World, cli: Cli) -> None:
    Path("good.toy").write_text("toy 1 2 3 4 5")
    for command in (["evaluate", "good.toy", "--workload"], ["optimize"]):
        refused = cli(*command, "toy:digits", "--set", "ordering=luck")
        assert refused.code == 2
        assert "unknown toy setting 'ordering'" in refused.err


def test_targets_workloads_and_doctor(world: World, cli: Cli) -> None:
    assert "toy" in cli("targets").out
    assert "toy:digits" in cli("workloads").out
    doctor = cli("doctor")
    assert doctor.code == 0
    assert "tilewright" in doctor.out
    assert cli("doctor", "--project", "created/when/needed").code == 0
    Path("file").touch()
    refused = cli("doctor", "--project", "file/below")
    assert refused.code == 1
    assert "not a directory" in " ".join(refused.out.split())  # long paths break the line there


def test_every_command_explains_itself(cli: Cli) -> None:
    commands = ("demo", "optimize", "evaluate", "best", "report", "targets", "workloads", "doctor")
    for command in (
        *((c,) for c in commands),
        ("runs", "list"),
        ("runs", "show"),
        ("runs", "resume"),
    ):
        result = cli(*command, "--help")
        assert result.code == 0
        assert "--no-color" in result.out


def test_groups_without_a_command_explain_themselves(cli: Cli) -> None:
    alone = cli()
    assert alone.code == 0
    assert "tilewright demo" in alone.out
    assert "resume" in cli("runs").out
    assert cli("--version").out.startswith("tilewright 0.")


def test_a_full_disk_is_no_defect(world: World, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run, "optimize", full)
    result = cli(*OPTIMIZE)
    assert result.code == 2
    assert "the disk is full (No space left on device). Free some space" in result.err


def test_no_color_leaves_no_escapes(
    world: World, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "")
    assert "\x1b[3" in cli("doctor").out
    assert "\x1b[3" not in cli("doctor", "--no-color").out


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, tilewright.cli.main\n"
        "heavy = {'rich', 'sqlalchemy', 'numpy', 'jinja2', 'pygments', 'pydantic', 'tree_sitter'}\n"
        "heavy |= {'islpy', 'openai', 'alembic', 'elftools', 'tilewright.core.records'}\n"
        "sys.exit(str(sorted(heavy & set(sys.modules)) or ''))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.stderr.strip() == ""


def _written(result: Result) -> str:
    assert result.code == 0
    return Path("a.json").read_text()


def test_a_comparison_gives_limits_with_names_and_units(world: World, cli: Cli) -> None:
    unlimited = json.loads(_written(cli(*OPTIMIZE, "--json", "a.json")))["run"]
    limited = json.loads(_written(cli(*OPTIMIZE, "--budget", "1 h", "--json", "a.json")))["run"]
    assert cli("runs", "compare", unlimited, limited, "--json", "c.json").code == 0
    rows = json.loads(Path("c.json").read_text())["rows"]
    assert rows["time limit"] == ["none", "3600 s"]


def test_a_gain_within_the_noise_is_no_speedup_in_lists(world: World, cli: Cli) -> None:
    start = Trial(0, 0, Candidate("kernel 0"), replace(measured(1060.0), noise=0.04))
    with closing(open_project(Path(), create=True)) as storage:
        for name, latency in (("0a", 1000.0), ("0b", 900.0), ("0c", 1020.0)):
            candidate = Candidate("kernel 1", start.candidate.id)
            best = Trial(1, 1, candidate, replace(measured(latency), noise=0.04))
            storage.create_run(run_record(id=name))
            for trial in (start, best):
                storage.append_trial(name, trial)
    listed = cli("runs", "list", "--json", "l.json")
    assert listed.out.count("within noise") == 2
    assert "1.18x" in listed.out
    rows = json.loads(Path("l.json").read_text())["runs"]
    assert {row["run"]: row["is_faster"] for row in rows} == {"0a": False, "0b": True, "0c": False}
    compared = cli("runs", "compare", "0b", "0a").out
    assert "within noise" in compared
    assert "0.90x as fast as 0b's" in compared
    assert "within the measurement noise" not in compared
    for pair in (("0a", "0c"), ("0c", "0a")):
        assert "as fast as" in cli("runs", "compare", *pair).out
        assert "which is within the measurement noise" in cli("runs", "compare", *pair).out


def test_runs_are_compared_exported_labelled_and_deleted(world: World, cli: Cli) -> None:
    first = json.loads(_written(cli(*OPTIMIZE, "--json", "a.json")))["run"]
    second = json.loads(_written(cli(*OPTIMIZE[:-1], "2", "--json", "a.json")))["run"]
    compared = cli("runs", "compare", first, second, "--json", "c.json")
    assert "is 1.00x as fast" in compared.out
    itself = cli("runs", "compare", first, first)
    assert itself.code == 2
    assert "Give two different runs" in " ".join(itself.err.split())
    rows = json.loads(Path("c.json").read_text())["rows"]
    assert rows["seed"] == ["1", "2"]
    assert "task" not in rows  # of both the same
    for name in ("a.csv", "a.json"):
        assert cli("runs", "export", first, "-o", name).code == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        without = cli("runs", "export", first, "-o", "a.parquet")
    assert "pip install 'tilewright[parquet]'" in " ".join(without.err.split())
    exported = json.loads(Path("a.json").read_text())
    assert [row["trial"] for row in exported] == list(range(len(exported)))
    assert exported[0]["latency"] == 235
    assert len(Path("a.csv").read_text().splitlines()) == len(exported) + 1
    assert "Use one of .csv" in cli("runs", "export", first, "-o", "a.txt").err
    assert cli("runs", "tag", first, "slow", "slow", "old").code == 0
    assert "a tag is empty" in cli("runs", "tag", first, " ").err
    assert "tags: slow, old; note: on a busy" in cli("runs", "note", first, "on a busy machine").err
    assert "note: none" in cli("runs", "note", first, "--no-color", "").err
    assert "note: on a busy" in cli("runs", "note", first, "on a busy machine").err
    assert {"#slow", "#old"} <= {*cli("runs", "list").out.split()}
    shown = cli("runs", "show", first).out
    assert "tags: slow, old" in shown
    assert "note: on a busy machine" in shown
    assert "Add --yes" in cli("runs", "delete", first).err
    assert cli("runs", "delete", first, "--yes").code == 0
    assert cli("runs", "list", "--json", "l.json").code == 0
    assert [r["run"] for r in json.loads(Path("l.json").read_text())["runs"]] == [second]


def test_options_come_from_the_nearest_pyproject(
    world: World, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '[tool.tilewright]\nproject = "kept"\n[tool.tilewright.optimize]\nseed = 7\n'
    (tmp_path / "pyproject.toml").write_text(text)
    assert cli(*OPTIMIZE[:4], "--json", "a.json").code == 0
    assert json.loads(Path("a.json").read_text())["seed"] == 7
    assert Path("kept/.tilewright").exists()
    assert cli(*OPTIMIZE, "--json", "a.json").code == 0
    assert json.loads(Path("a.json").read_text())["seed"] == 1
    below = tmp_path / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    (below / "pyproject.toml").write_text("[project]\n")
    assert "toy:digits" in cli("runs", "list", "--project", "../kept").out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[tool.tilewright]\nprojekt = "x"\n', "did you mean 'project'"),
        ("[tool.tilewright.optimise]\nseed = 1\n", "did you mean 'optimize'"),
        ("[tool.tilewright.optimize]\nsed = 1\n", "did you mean 'seed'"),
        ("[tool.tilewright\n", "not valid TOML"),
        ('[tool]\ntilewright = "x"\n', "must be a table"),
    ],
)
def test_settings_that_no_command_has_are_refused(
    world: World, cli: Cli, tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    refused = cli("targets")
    assert refused.code == 2
    assert words in refused.err


@pytest.mark.parametrize(
    ("command", "option", "value"),
    [
        ("verify", "trust-reference", "true"),
        ("runs", "yes", "true"),
        ("optimize", "allow-unpriced", "true"),
        ("optimize", "json", '"/tmp/victim"'),
        ("optimize", "events", '"/tmp/victim"'),
        ("optimize", "record", '"/tmp/victim"'),
        ("optimize", "report", '"/tmp/victim"'),
        ("best", "output", '"/tmp/victim"'),
        ("optimize", "host", '"elsewhere"'),
        ("optimize", "executor", '"dask://elsewhere:1"'),
        ("optimize", "replay", '"calls.jsonl"'),
        ("optimize", "input-seed", "1"),
        ("evaluate", "simulator", '"firesim"'),
        ("init", "from-function", '"file.py:f"'),
        ("serve", "token", '"known"'),
        ("serve", "host", '"0.0.0.0"'),
        ("optimize", "proposer", '["command:touch victim"]'),
        ("optimize", "proposer", '["builtin", "agent:program"]'),
        ("optimize", "proposer", '"mailbox:/tmp"'),
        ("optimize", "proposer", '["openai/m@http://elsewhere"]'),
        ("optimize", "proposer", "[[7]]"),
    ],
)
def test_a_strangers_pyproject_starts_writes_and_consents_to_nothing(
    world: World, cli: Cli, tmp_path: Path, command: str, option: str, value: str
) -> None:
    text = f"[tool.tilewright.{command}]\n{option} = {value}\n"
    if command == "runs":
        text = f"[tool.tilewright]\n{option} = {value}\n"
    (tmp_path / "pyproject.toml").write_text(text)
    refused = cli("targets")
    assert refused.code == 2
    assert "the command line" in refused.err
    assert "somebody else's" in refused.err


def test_a_pyproject_that_is_no_plain_file_is_left_alone(
    world: World, cli: Cli, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pyproject.toml")
    assert cli("targets").code == 0
    (tmp_path / "pyproject.toml").unlink()
    (tmp_path / "pyproject.toml").write_text(f"[tool.tilewright]\nseed = {'9' * 5000}\n")
    assert "not valid TOML" in cli("targets").err
    (tmp_path / "pyproject.toml").write_text(f"[tool.tilewright]\nseed.{'a.' * 500_000}a = 1\n")
    assert "a key has more than 32 parts" in cli("targets").err


def test_no_help_shows_a_type_for_a_number(cli: Cli) -> None:
    for command in ("tune", "tune-compare", "optimize", "prompt", "evaluate", "rewrite", "demo"):
        assert "<" not in cli(command, "--help").out.partition("Options:")[2]


def test_hostile_names_are_one_sentence_and_exit_code_2(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    evaluate = ("evaluate", "k", "--workload", "host-c:softmax-4x8")
    for words, said in (
        (
            (*evaluate, "--json", str(tmp_path / "loop")),
            "cannot be the name of a file (Too many levels",
        ),
        ((*evaluate, "--json", "x" * 100_000), "cannot be the name of a file (File name too long)"),
        (
            ("doctor", "--project", str(tmp_path / "loop")),
            "cannot be the name of a file (Too many levels",
        ),
        (
            ("doctor", "--project", "x" * 100_000),
            "cannot be the name of a file (File name too long)",
        ),
        (
            ("best", "latest", "-o", str(tmp_path / "loop")),
            "cannot be the name of a file (Too many levels",
        ),
        (("report", "\udcff\udcfe"), "is not text in UTF-8. Write it in UTF-8"),
        (("runs", "show", "\udcff"), "is not text in UTF-8"),
        (("models", "\udcff"), "is not text in UTF-8"),
        (("tune", "\udcff"), "is not text in UTF-8"),
    ):
        result = cli(*words)
        assert result.code == 2, (words, result)
        assert said in result.err, (words, result.err)
        assert result.err.count("\n") == 1
        assert len(result.err) < 1000
