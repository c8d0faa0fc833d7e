"""`tilewright experiment` in the toy world: runs, goes on after Ctrl-C, refuses unusable files."""

from __future__ import annotations

import csv
import json
import os
from contextlib import closing, nullcontext
from pathlib import Path

import pytest
from toy_cli import Cli, World

from tilewright.experiments import running
from tilewright.experiments.definition import read_experiment, shipped_names
from tilewright.experiments.output import HEAD
from tilewright.run import open_project

FILE = """
workloads = ["toy:digits"]
seeds = 2
budget = "8 evaluations"
input_seed = 3

[options]
iterations = 2
plans = 3

[arms.full]

[arms.no-dropout]
dropout = 0.0

[arms.chain]
beam = 1
plans = 1
"""


REUSE = '[reuse]\nbudget = "1 evaluation"\n[reuse.from]\n"toy:digits" = "toy:digits"\n'
"""The tables for arms with `reuse`."""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "arms.toml"
    path.write_text(FILE)
    return path


def rows_of(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(file.open()))


def test_every_arm_is_run_with_every_seed_and_shown(cli: Cli, world: World, file: Path) -> None:
    found = cli("experiment", str(file), "--json", "rows.json")
    assert found.code == 0, found.err
    assert all(name in found.out for name in HEAD)
    assert "1 workload, 2 seeds, each run with 8 evaluations at most" in found.out
    tables = found.out.partition("; 1 workload")[0].splitlines()[:-1]
    assert max(len(line.rstrip()) for line in tables) <= 80
    folder = file.parent / "arms"
    runs = rows_of(folder / "runs.csv")
    assert [(r["arm"], r["seed"]) for r in runs] == [
        (arm, seed) for seed in "01" for arm in ("full", "no-dropout", "chain")
    ]
    assert all(int(r["evaluations"]) <= 8 for r in runs)
    points = rows_of(folder / "points.csv")
    assert len(points) == sum(int(r["evaluations"]) for r in runs)
    page = (folder / "index.html").read_text()
    assert "no-dropout" in page
    assert "<svg" in page
    rows = json.loads((file.parent / "rows.json").read_text())["rows"]
    assert [row["arm"] for row in rows] == ["full", "no-dropout", "chain"]
    assert rows[0]["ratio"] == pytest.approx(1.0)


def test_after_ctrl_c_the_same_command_goes_on_and_repeats_no_evaluation(
    cli: Cli, world: World, file: Path
) -> None:
    world.interrupt_after = 10
    assert cli("experiment", str(file)).code == 130
    world.interrupt_after = None
    before = len(world.evaluated)
    assert cli("experiment", str(file)).code == 0
    with_storage = open_project(file.parent / "arms")
    runs = with_storage.runs()
    with_storage.close()
    assert len(runs) == 6
    assert {run.status for run in runs} == {"finished"}
    trials = sum(int(r["evaluations"]) for r in rows_of(file.parent / "arms" / "runs.csv"))
    assert len(world.evaluated) <= trials
    assert len(world.evaluated) > before
    again = len(world.evaluated)
    assert cli("experiment", str(file)).code == 0
    assert len(world.evaluated) == again


def test_an_arm_that_is_added_leaves_the_others_as_they_are(
    cli: Cli, world: World, file: Path
) -> None:
    cli("experiment", str(file))
    file.write_text(FILE + '\n[arms.islands]\nstrategy = "islands"\n')
    assert cli("experiment", str(file)).code == 0
    with_storage = open_project(file.parent / "arms")
    runs = with_storage.runs()
    with_storage.close()
    assert len(runs) == 8


@pytest.mark.parametrize("budget", ["8 evaluations", "8 evaluations, 60 s"])
def test_arms_share_processes_unless_seconds_are_counted(
    budget: str, cli: Cli, world: World, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[bool] = []
    monkeypatch.setattr(running, "kept_processes", lambda: nullcontext(kept.append(True)))
    text = FILE.replace("8 evaluations", budget).replace("input_seed = 3", "")
    file.write_text(text.replace("seeds = 2", "seeds = 1"))
    assert cli("experiment", str(file)).code == 0
    assert len(kept) == (budget == "8 evaluations")


def test_arms_share_nothing_where_seconds_are_counted(cli: Cli, world: World, file: Path) -> None:
    text = FILE.replace("8 evaluations", "8 evaluations, 60 s").replace("input_seed = 3", "")
    file.write_text(text.replace("seeds = 2", "seeds = 1"))
    assert cli("experiment", str(file)).code == 0
    folder = file.parent / "arms"
    assert sorted(p.name for p in (folder / "arms").iterdir()) == ["chain", "full", "no-dropout"]
    assert {r["cached"] for r in rows_of(folder / "runs.csv")} == {"0"}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("seeds = 2", "seed = 2", "did you mean 'seeds'?"),
        ("seeds = 2", "seeds = -1", "seeds is -1"),
        ("seeds = 2", "seeds = 1000000", "seeds is 1000000"),
        ("seeds = 2", "seeds = 1000000000000", "At most 100,000 seeds are allowed."),
        ("seeds = 2", "seeds = 0x" + "f" * 5000, "a whole number has more than 64 bits"),
        ('budget = "8 evaluations"', "", "it has no budget"),
        ("seeds = 2", 'seeds = 2\nbaseline = ["chain"]', "baseline is ['chain']"),
        ("beam = 1", "without = [1]", "option without in [arms.chain] is (1,)"),
        ("8 evaluations", "soon", "arms.toml: the budget 'soon' cannot be read"),
        ("8 evaluations", "0 evaluations", "arms.toml: the budget '0 evaluations' contains"),
        ("8 evaluations", "60 s", "Leave input_seed out"),
        ("beam = 1", "baem = 1", "did you mean 'beam'?"),
        ("beam = 1", "seed = 1", "seed in [arms.chain] is the same for all arms"),
        ("iterations = 2", 'budget = "1 evaluation"', "budget in [options] is the same for"),
        ("beam = 1", "max_evaluations = 1", "max_evaluations in [arms.chain] is the same for"),
        ("beam = 1", 'schedule_from = "1"', "schedule_from in [arms.chain] is the same for"),
        ("seeds = 2", 'seeds = 2\nname = ["a"]', "name is ['a']"),
        ("seeds = 2", "seeds = 2\nabout = 3", "about is 3"),
        ('"8 evaluations"', "8", "budget is 8. Write text in quotes"),
        ("[arms.full]", "[[arms]]", "arms is [{"),
        ("[options]", '[[reuse]]\nbudget = "1 evaluation"\n[options]', "reuse is [{"),
        ("beam = 1", "proposers = []", "setting proposers is empty"),
        ("beam = 1", 'beam = "one"', "option beam in [arms.chain] is 'one'"),
        ("beam = 1", "beam = true", "option beam in [arms.chain] is True"),
        ("beam = 1", "beam = 0", "setting beam is 0"),
        ('workloads = ["toy:digits"]', "workloads = []", "it has no workloads"),
        ('workloads = ["toy:digits"]', 'workloads = "toy:digits"', "Give a list of names, as in"),
        ("[options]", 'baseline = "ful"\n[options]', "did you mean 'full'?"),
        ("[arms.full]", '[arms."a b"]', "arm 'a b'"),
        ("seeds = 2", "seeds = [", "not valid TOML"),
        ("beam = 1", "reuse = true", "there is nothing to reuse for toy:digits"),
        ("[options]", "[reuse]\n[options]", "it has no reuse"),
        ("[options]", '[reuse]\nbudget = "1 evaluation"\n[options]', "it has no from"),
        ("[options]", '[reuse.from]\n"a" = "b"\n[options]', "it has no budget"),
        ("[options]", '[reuse]\nform = "a"\n[options]', "[reuse] may contain only a budget"),
        ("[options]", f"{REUSE}[options]", "no arm has reuse = true"),
        (
            "[options]\n",
            REUSE.replace('"toy:digits" =', '"toy:digit" =') + "[options]\nreuse = true\n",
            "[reuse.from] names toy:digit, which is not a workload of the experiment",
        ),
    ],
)
def test_an_unusable_file_is_one_sentence(
    cli: Cli, world: World, file: Path, old: str, new: str, said: str
) -> None:
    file.write_text(FILE.replace(old, new))
    found = cli("experiment", str(file))
    assert found.code == 2
    assert said in found.err
    assert len(found.err.strip().splitlines()) == 1
    assert world.evaluated == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('["toy:digits"]', '["toy:digits", "toy:"]', "Write for example toy:digits"),
        ('["toy:digits"]', '["toy:digits", "digit"]', "folder digit does not exist"),
        ("beam = 1", 'strategy = "annealing"', "unknown strategy 'annealing'"),
        ("beam = 1", 'proposers = ["claude"]', "unknown proposer 'claude'"),
        ("beam = 1", 'proposers = ["openai/gpt-5.5"]', "OPENAI_API_KEY"),
        ("beam = 1", 'target_settings = "fast"', "option target_settings in [arms.chain]"),
        ("beam = 1", 'without = ["structure"]', "is not a template"),
        (
            "plans = 1",
            "reuse = true\n" + REUSE.replace('= "toy:digits"', '= "digit"'),
            "folder digit does not exist",
        ),
    ],
)
def test_whatever_is_wrong_with_one_run_is_said_before_the_first_run(
    cli: Cli,
    world: World,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    old: str,
    new: str,
    said: str,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    file.write_text(FILE.replace(old, new))
    found = cli("experiment", str(file))
    assert found.code == 2
    assert said in found.err
    assert len(found.err.strip().splitlines()) == 1
    assert world.evaluated == []


def test_a_pipe_in_the_output_folder_is_refused_before_any_run(
    cli: Cli, world: World, file: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    os.mkfifo(folder / "points.jsonl")
    found = cli("experiment", str(file), "-o", str(folder))
    assert found.code == 2
    assert "points.jsonl is not a regular file" in found.err
    assert len(found.err.strip().splitlines()) == 1
    assert world.evaluated == []


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("beam = 1", 'proposers = ["command:touch proof"]', "command:touch proof"),
        ("beam = 1", 'proposers = ["builtin", "agent:touch proof"]', "agent:touch proof"),
        ("beam = 1", 'proposers = ["mailbox:proof"]', "mailbox:proof"),
        ("beam = 1", 'proposers = ["openai/gpt@https://example.org"]', "openai/gpt@https"),
        ("iterations = 2", 'iterations = 2\nproposers = ["command:touch proof"]', "command:touch"),
        ("beam = 1", 'host = "example.org"', "example.org"),
        ("beam = 1", "allow_unpriced = true", "allow_unpriced"),
        ('["toy:digits"]', '["toy:digits", "folder"]', "folder"),
        (
            "[options]\n",
            REUSE.replace('= "toy:digits"', '= "folder"') + "[options]\nreuse = true\n",
            "folder",
        ),
    ],
)
def test_a_file_of_somebody_else_starts_nothing_without_consent(
    cli: Cli, world: World, file: Path, old: str, new: str, named: str
) -> None:
    (file.parent / "folder").mkdir()
    file.write_text(FILE.replace(old, new))
    found = cli("experiment", str(file))
    assert found.code == 2
    assert named in found.err
    assert "if you trust it, give --trust-file" in found.err
    assert len(found.err.strip().splitlines()) == 1
    assert world.evaluated == []
    assert sorted(p.name for p in file.parent.iterdir()) == ["arms.toml", "folder"]


@pytest.mark.parametrize("more", [(), ("--trust-file",)])
def test_consent_is_asked_for_where_it_matters(
    cli: Cli, world: World, file: Path, more: tuple[str, ...]
) -> None:
    file.write_text(FILE.replace("beam = 1", "allow_unpriced = true"))
    assert (cli("experiment", str(file), *more).code == 0) == bool(more)


def test_an_arm_takes_up_what_a_run_of_its_own_found_first(
    cli: Cli, world: World, file: Path
) -> None:
    sources = '[reuse]\nbudget = "12 evaluations"\n[reuse.from]\n"toy:digits" = "toy:digits"\n'
    file.write_text(
        FILE.replace("[options]", f"{sources}[options]").replace("plans = 1", "reuse = true")
    )
    found = cli("experiment", str(file))
    assert found.code == 0, found.err
    folder = file.parent / "arms"
    arms = {r["run_id"]: r["arm"] for r in rows_of(folder / "runs.csv")}
    assert len(arms) == 6
    with closing(open_project(folder)) as storage:
        taken_up = {run.id: run.settings["schedule_from"] for run in storage.runs()}
        budgets = {run.id: run.settings["max_evaluations"] for run in storage.runs()}
        assert not any(run.settings["reuse"] for run in storage.runs())
    assert len(taken_up) == 6 + 2
    assert {arm for run, arm in arms.items() if taken_up[run]} == {"chain"}
    assert all(budgets[str(source)] == 12 for source in taken_up.values() if source)


def test_an_arm_whose_source_found_nothing_begins_without_a_schedule(
    cli: Cli, world: World, file: Path
) -> None:
    file.write_text(
        FILE.replace("plans = 1", f"reuse = true\n{REUSE}")
    )  # only the start is measured
    found = cli("experiment", str(file))
    assert found.code == 0, found.err
    with closing(open_project(file.parent / "arms")) as storage:
        assert {run.settings["schedule_from"] for run in storage.runs()} == {""}
    assert len(rows_of(file.parent / "arms" / "runs.csv")) == 6


def test_a_name_that_is_no_file_is_told_what_there_is(cli: Cli, world: World, file: Path) -> None:
    found = cli("experiment", "keyless-ablatoin")
    assert found.code == 2
    assert "did you mean 'keyless-ablation'?" in found.err
    assert cli("experiment", "missing.toml").code == 2


def test_the_experiments_that_come_along_can_be_read() -> None:
    names = {"keyless-ablation", "keyless-factors", "keyless-reuse", "keyless-smoke"}
    names |= {"model-ablation"}
    assert set(shipped_names()) == names
    for name in shipped_names():
        assert read_experiment(name).cells
    ablation = read_experiment("keyless-ablation")
    assert len(ablation.workloads) == 4
    assert len(ablation.seeds) == 3
    assert {"no-dropout", "beam-1", "plans-2", "patience-2", "islands", "best-of-n"} <= set(
        ablation.arms
    )
    assert ablation.arms["random-plans"].proposers == ("random",)
    models = read_experiment("model-ablation").arms
    assert {"random-plans", "in-turns", "plain-agent", "keyless"} <= set(models)
