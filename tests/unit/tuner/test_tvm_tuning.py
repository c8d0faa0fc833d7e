"""A tuning run from end to end on a tiny product. Needs the extra `tune` and a C compiler."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

if find_spec("tvm") is None:
    pytest.skip("needs the extra 'tune' (TVM)", allow_module_level=True)
if shutil.which("g++") is None and shutil.which("clang++") is None:
    pytest.skip("needs a C++ compiler to link kernels", allow_module_level=True)

from tilewright.core.errors import StorageError
from tilewright.sandbox.child import Channel
from tilewright.sandbox.forking import Forked, prepared
from tilewright.storage.project import open_tunings, run_lock
from tilewright.tuner.cost_model import BoostedTrees
from tilewright.tuner.features.cpu import CpuFeatures
from tilewright.tuner.training_set import TrainingSet, shipped_training_set
from tilewright.tuner.tvm import setup
from tilewright.tuner.tvm.analysis import analyse
from tilewright.tuner.tvm.builder import Builder, Built
from tilewright.tuner.tvm.contained import contained
from tilewright.tuner.tvm.programs import Program, matmul
from tilewright.tuner.tvm.runner import Measurement, MeasuringRules, Runner, Task
from tilewright.tuner.tvm.session import Budget, Tuning
from tilewright.tuner.tvm.setup import Method, open_search
from tilewright.tuner.tvm.targets import parse_target
from tilewright.tuner.tvm.task_files import task_files
from tilewright.tuner.tvm.trials import Trial
from tilewright.tuning import confirmation, stored, winner
from tilewright.tuning.comparison import Group, is_finished, read_runs, run_group
from tilewright.tuning.runs import tune
from tilewright.tuning.stored import TuneSettings, identity_of

QUICK = MeasuringRules(repeats=2, sample_s=0.0005, timeout_s=20.0)
MATMUL = json.dumps({"call": "matmul", "gpu": False})
RANDOM = TuneSettings(Method("random"), trials=6, rules=QUICK)


@pytest.fixture(scope="module")
def program() -> Program:
    return matmul(32, 16, 24)


@pytest.fixture(scope="module")
def task(program: Program) -> Iterator[Task]:
    with task_files(program, seed=1) as files:
        yield files


@pytest.fixture(scope="module")
def library(program: Program) -> Iterator[Path]:
    """A correct kernel."""
    target = parse_target("cpu")
    search = open_search(program, target, Method("random"), 1, 0)
    with Builder(target.target) as builder:
        built = builder.build([search.strategy.ask()[0].schedule])[0]
        assert built.library is not None, built.log
        yield built.library


def _c_kernel(folder: Path, body: str) -> Path:
    """A library that a candidate might be: its `main` does what `body` says."""
    source, made = folder / "bad.cc", folder / "bad.so"
    source.write_text(
        "#include <cstdlib>\n#include <unistd.h>\n"
        'extern "C" int __tvm_ffi_main(void*, const void* args, int n, void* ret) '
        f"{{ {body} return 0; }}\n"
    )
    compiler = shutil.which("g++") or shutil.which("clang++")
    assert compiler is not None
    subprocess.run([compiler, "-shared", "-fPIC", str(source), "-o", str(made)], check=True)
    return made


def test_a_correct_candidate_has_samples(task: Task, library: Path) -> None:
    with Runner(task, "cpu", 1, QUICK) as runner:
        found = runner.measure(library, best_s=None)
        slow = runner.measure(library, best_s=1e-12)
        rounds = runner.interleave([library, library], rounds=3, seed=0)
    assert found.failure is None
    assert len(found.samples) == 2
    assert found.seconds == pytest.approx(np.median(found.samples))
    assert (len(slow.samples), slow.calls) == (1, 1)
    assert {n: len(samples) for n, samples in rounds.samples.items()} == {0: 3, 1: 3}
    assert (rounds.reference, rounds.failures) == (None, {})


@pytest.mark.skipif(prepared([], {}) is None, reason="this system has no descriptors of processes")
def test_processes_are_forked_from_one_that_has_imported_tvm(task: Task, library: Path) -> None:
    """The import takes up to a second."""
    with Runner(task, "cpu", 1, QUICK) as runner:
        assert runner.measure(library, best_s=None).failure is None
        child = runner._process._child
        assert child is not None
        forked = child._process
        assert isinstance(forked, Forked)
        command = Path(f"/proc/{forked._server._process.pid}/cmdline").read_text().split("\0")
    assert "tilewright.tuner.tvm.preloaded" in command


def test_rounds_go_on_without_the_candidates_that_fail(
    task: Task, library: Path, tmp_path: Path
) -> None:
    wrong = _c_kernel(tmp_path, "").rename(tmp_path / "wrong.so")
    crashing = _c_kernel(tmp_path, "std::abort();")
    libraries = [wrong, library, crashing, tmp_path / "absent.so", library]
    with Runner(task, "cpu", 1, QUICK) as runner:
        found = runner.interleave(libraries, rounds=3, seed=0, reference=MATMUL)
        none = runner.interleave([tmp_path / "absent.so"], rounds=3, seed=0)
    assert {n: len(samples) for n, samples in found.samples.items()} == {1: 3, 4: 3}
    kinds = {n: failure.failure for n, failure in found.failures.items()}
    assert kinds == {0: "wrong", 2: "crashed", 3: "run"}
    assert found.reference is not None
    assert (none.samples, none.failures[0].failure) == ({}, "run")


@pytest.mark.parametrize(
    ("body", "kind"),
    [("std::abort();", "crashed"), ("_exit(0);", "crashed"), ("", "wrong")],
)
def test_bad_candidates_are_typed_failures(
    task: Task, library: Path, tmp_path: Path, body: str, kind: str
) -> None:
    bad = _c_kernel(tmp_path, body)
    with Runner(task, "cpu", 1, QUICK) as runner:
        assert runner.measure(bad, None).failure == kind
        assert runner.measure(tmp_path / "absent.so", None).failure == "run"
        assert runner.measure(library, None).failure is None


def test_a_hanging_candidate_times_out_and_the_next_is_measured(
    task: Task, library: Path, tmp_path: Path
) -> None:
    bad = _c_kernel(tmp_path, "for (;;) sleep(1);")
    with Runner(task, "cpu", 1, replace(QUICK, timeout_s=2.0)) as runner:
        found = runner.measure(bad, None)
        assert (found.failure, found.samples) == ("timeout", ())
    with Runner(task, "cpu", 1, QUICK) as runner:
        assert runner.measure(library, None).failure is None


def test_a_candidate_far_slower_than_the_best_is_ended_early(task: Task, tmp_path: Path) -> None:
    spinning = _c_kernel(tmp_path, "for (volatile long i = 0;; i++);")
    with Runner(task, "cpu", 1, replace(QUICK, timeout_s=1000.0)) as runner:
        found = runner.measure(spinning, best_s=1e-6)
    assert (found.failure, found.samples) == ("timeout", ())
    assert found.log == "the candidate was ended: it took too long"


def test_a_compiler_that_takes_too_long_or_crashes_is_a_typed_failure(program: Program) -> None:
    target = parse_target("cpu")
    schedule = open_search(program, target, Method("random"), 1, 0).strategy.ask()[0].schedule
    with Builder(target.target, timeout_s=0.001) as hurried:
        late = hurried.build([schedule, schedule])
    assert [(built.library, built.failure) for built in late] == [(None, "timeout")] * 2
    assert late[0].log == "not compiled within 0.001 s"
    reading, writing = os.pipe()
    dies = lambda: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
    contained(dies, Channel(writing), "the compiler")
    told = Channel(reading).receive_json()
    assert told == {"failure": "crashed", "log": "the compiler ended with SIGKILL"}


@pytest.mark.parametrize(
    "method",
    [
        Method("gradient"),
        Method("gradient", pretrained=True),
        Method("evolutionary", "analytical"),
        Method("evolutionary", "tvm164"),
    ],
)
def test_told_the_same_a_search_asks_the_same(
    program: Program, task: Task, method: Method, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tvm.s_tir.meta_schedule.search_strategy import EvolutionarySearch

    small = {"population_size": 16, "init_min_unmeasured": 8, "genetic_num_iters": 1}
    monkeypatch.setattr(setup, "_evolution", lambda: EvolutionarySearch(**small))
    target = parse_target("cpu")

    def run(known: list[Trial]) -> Tuning:
        search = open_search(program, target, method, 8, seed=3)
        outcomes = {trial.key: trial.measurement for trial in known}
        with Builder(target.target) as builder, Runner(task, "cpu", 1, QUICK) as runner:
            tuning = Tuning(search, builder, runner, Budget(8), outcomes, build_ahead=not known)
            tuning.run()
        return tuning

    first = run([])
    again = run(first.trials)
    assert [t.key for t in again.trials] == [t.key for t in first.trials]
    assert (first.measured, again.measured) == (8, 0)
    assert all(trial.measurement.failure is None for trial in first.trials)
    assert first.search.ledger.wall_s > 0


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[TrainingSet | None]:
    """What each cost model that is opened from now on has been told."""
    told: list[TrainingSet | None] = []

    class Noting(BoostedTrees):
        def __init__(self, *arguments: Any, known: TrainingSet | None = None) -> None:
            told.append(known)
            super().__init__(*arguments, known=known)

    monkeypatch.setattr(setup, "BoostedTrees", Noting)
    return told


def test_a_pretrained_search_has_not_been_told_of_its_own_workload(
    program: Program, told: list[TrainingSet | None]
) -> None:
    shipped = shipped_training_set(CpuFeatures.names)
    assert shipped is not None
    target, method = parse_target("cpu", 1), Method(pretrained=True)
    known = matmul(768, 96, 768, name="whatever its name")
    signature = analyse(known.function, known.name).workload.signature
    assert signature in shipped.workloads
    open_search(known, target, method, 1, 0)
    open_search(program, target, method, 1, 0)
    open_search(program, target, replace(method, unrelated=True), 1, 0)
    open_search(program, target, Method(), 1, 0)
    own, other, unrelated, cold = told
    assert own is not None
    assert other is not None
    assert unrelated is not None
    assert cold is None
    assert set(shipped.workloads) - set(own.workloads) == {signature}
    assert other.workloads == shipped.workloads
    products = {name for name in shipped.workloads if name.startswith("ac,cb->ab ")}
    assert set(shipped.workloads) - set(unrelated.workloads) == products


def test_a_run_learns_from_earlier_ones_and_from_the_same_when_it_goes_on(
    program: Program, tmp_path: Path, told: list[TrainingSet | None]
) -> None:
    target = parse_target("cpu", 1)
    shipped = shipped_training_set(CpuFeatures.names)
    assert shipped is not None
    second = TuneSettings(Method(pretrained=True), trials=2, rules=QUICK)

    def learned(settings: TuneSettings, *, of: Program = program) -> tuple[int, object]:
        result = tune(of, target, settings, project=tmp_path, output=tmp_path / of.name)
        known = told[-1] if told else None
        more = 0 if known is None else len(known.workloads) - len(shipped.workloads)
        return more, result.record.settings["learned_from"]

    first = tune(
        matmul(32, 16, 48), target, RANDOM, project=tmp_path, output=tmp_path / "first"
    ).record.id
    assert learned(second) == (6, {first: 6})
    longer = replace(RANDOM, trials=8)
    tune(matmul(32, 16, 48), target, longer, project=tmp_path, output=tmp_path / "first")
    assert learned(replace(second, trials=3)) == (6, {first: 6})
    assert learned(replace(second, fresh=True)) == (0, {})
    cold = learned(replace(second, method=Method()))
    assert (told[-1], cold[1]) == (None, {})


def test_a_model_comes_trained_for_one_thread_of_a_cpu() -> None:
    one, two = parse_target("cpu", 1), replace(parse_target("cpu", 1), threads=2)
    assert setup.comes_pretrained(one, "gradient", "analytical")
    assert not setup.comes_pretrained(two, "gradient", "analytical")
    assert not setup.comes_pretrained(one, "gradient", "tvm164")
    assert not setup.comes_pretrained(one, "random", "analytical")
    assert not setup.comes_pretrained(parse_target("nvidia/h100"), "gradient", "analytical")


def test_a_run_is_another_one_with_another_training_set(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = parse_target("cpu", 1)
    cold, trained = TuneSettings(Method()), TuneSettings(Method(pretrained=True))
    before = [identity_of(program, target, settings) for settings in (cold, trained)]
    assert before[0] != before[1]
    monkeypatch.setattr(stored, "shipped_digest", lambda: "another")
    after = [identity_of(program, target, settings) for settings in (cold, trained)]
    assert after[0] == before[0]
    assert after[1] != before[1]


def test_a_run_is_kept_and_its_results_work(program: Program, tmp_path: Path) -> None:
    target, output = parse_target("cpu"), tmp_path / "out"
    seen: list[Trial] = []
    result = tune(program, target, RANDOM, project=tmp_path, output=output, on_trial=seen.append)
    assert len(seen) == len(result.trials) == result.measured == 6
    assert result.winner is not None
    assert result.winner.reference_name == "numpy (BLAS)"
    facts = json.loads((output / "result.json").read_text())
    assert facts["kind"] == "measured"
    assert facts["seconds"] == pytest.approx(result.winner.seconds)
    assert "define" in (output / "kernel.ll").read_text()
    assert json.loads((output / "trace.json").read_text())

    again = tune(program, target, replace(RANDOM, trials=8), project=tmp_path, output=output)
    assert (len(again.trials), again.measured) == (8, 2)
    assert again.record.id == result.record.id
    fresh = tune(
        program, target, replace(RANDOM, fresh=True), project=tmp_path, output=tmp_path / "f"
    )
    assert fresh.measured == 6
    assert fresh.record.id != result.record.id

    _check_snippet(output)
    _check_database(output / "database", program)


def _failing(monkeypatch: pytest.MonkeyPatch, which: int) -> None:
    """Of the kernels that are built again, the one at this position ends its process."""

    real = Builder.build

    def build(builder: Builder, schedules: Sequence[Any]) -> list[Built]:
        built = real(builder, schedules)
        library = built[which].library
        assert library is not None
        _c_kernel(library.parent, "std::abort();").replace(library)
        return built

    monkeypatch.setattr(Builder, "build", build)


def test_a_compiler_that_hangs_over_finalists_does_not_stop_the_run(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Builder.build

    def build(builder: Builder, schedules: Sequence[Any]) -> list[Built]:
        with Builder(parse_target("cpu").target, timeout_s=0.001) as impatient:
            return real(impatient, schedules)

    monkeypatch.setattr(Builder, "build", build)
    result = tune(program, parse_target("cpu"), RANDOM, project=tmp_path, output=tmp_path / "o")
    assert isinstance(result.winner, winner.NoWinner)
    assert [found.failure for found in result.winner.failed.values()] == ["timeout"] * 3


def test_a_finalist_that_fails_the_second_time_is_reported_and_the_next_wins(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _failing(monkeypatch, 0)
    result = tune(program, parse_target("cpu"), RANDOM, project=tmp_path, output=tmp_path / "o")
    assert result.winner is not None
    assert result.winner.trial is not None
    timed = sorted(result.trials, key=lambda trial: (trial.seconds or 0.0, trial.index))
    assert result.winner.trial.index in {trial.index for trial in timed[1:3]}
    facts = json.loads((tmp_path / "o" / "result.json").read_text())
    told = [(f["kernel"], f["failure"]) for f in facts["failed_again"]]
    assert told == [(f"trial {timed[0].index}", "crashed")]


def test_a_kernel_that_fails_the_second_time_leaves_a_comparison_whole(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _failing(monkeypatch, 0)
    target, group = parse_target("cpu"), Group(program, 0, {"random": 2, "af-ds-knobs": 2}, (2,))
    lines = {line["arm"]: line for line in run_group(group, target, tmp_path, QUICK)}
    assert lines["random"]["confirmed"] == {}
    assert lines["random"]["unconfirmed"]["2"].startswith("crashed")
    assert set(lines["af-ds-knobs"]["confirmed"]) == {"2"}
    assert is_finished(group, target, read_runs(tmp_path))


def test_a_result_is_never_worse_than_what_the_project_knows(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, output = parse_target("cpu"), tmp_path / "o"
    first = tune(program, target, RANDOM, project=tmp_path, output=output)
    timed = sorted(first.trials, key=lambda trial: (trial.seconds or 0.0, trial.index))
    favourite, real = "", winner.confirmed

    def rounds(
        module: Any, target: Any, traces: Sequence[str], *rest: Any, **options: Any
    ) -> confirmation.Confirmation:
        """As if one kernel were the fastest wherever it takes part."""
        found = real(module, target, traces, *rest, **options)
        kernels = {
            n: replace(kernel, samples=(1.0 if traces[n] == favourite else 2.0,) * 20)
            for n, kernel in found.kernels.items()
        }
        return replace(found, kernels=kernels, reference=None)

    monkeypatch.setattr(winner, "confirmed", rounds)

    # Extended: what lies in the folder takes part, though the search saw five that were faster.
    favourite = timed[-1].trace
    (output / "trace.json").write_text(favourite)
    again = tune(program, target, replace(RANDOM, trials=7), project=tmp_path, output=output)
    assert again.winner is not None
    assert again.winner.trial is not None
    assert again.winner.trial.trace == favourite

    # Searched in another way, into another folder: what the database holds takes part.
    measure = Runner.measure

    def slow(self: Runner, library: Path, best_s: float | None) -> Measurement:
        """As if the other search found nothing that is faster."""
        found = measure(self, library, best_s)
        return replace(found, samples=tuple(sample + 1.0 for sample in found.samples))

    monkeypatch.setattr(Runner, "measure", slow)
    favourite = min(again.trials, key=lambda t: (t.seconds or 0.0, t.index)).trace
    changed = replace(RANDOM, method=Method("random", space="template"), trials=1)
    other = tune(program, target, changed, project=tmp_path, output=tmp_path / "p")
    assert other.winner is not None
    assert (other.winner.trial, other.winner.found_by) == (None, first.record.id)
    assert json.loads((tmp_path / "p" / "trace.json").read_text()) == json.loads(favourite)
    assert f"found by run {first.record.id}" in other.facts["sentence"]
    fresh = replace(changed, fresh=True)
    alone = tune(program, target, fresh, project=tmp_path, output=tmp_path / "q")
    assert alone.winner is not None
    assert alone.winner.found_by is None


def _check_snippet(folder: Path) -> None:
    check = (
        "import numpy as np; from run import kernel; r = np.random.default_rng(0);"
        "a = r.random((32, 24), np.float32); b = r.random((24, 16), np.float32);"
        "assert np.allclose(kernel(a, b), a @ b, atol=1e-4)"
    )
    environment = {**os.environ, "TVM_USE_RUNTIME_LIB": "1"}
    for command in (["-c", check], ["run.py"]):
        subprocess.run([sys.executable, *command], cwd=folder, check=True, env=environment)


def _check_database(folder: Path, program: Program) -> None:
    """MetaSchedule itself loads the export and finds its best record."""
    from tvm.s_tir import meta_schedule as ms

    from tilewright.tuner.tvm.rules import normalised

    database = ms.database.JSONDatabase(
        str(folder / "database_workload.json"), str(folder / "database_tuning_record.json")
    )
    target = parse_target("cpu").target
    module = normalised(program.function)
    record = database.query_tuning_record(module, target, "main")
    assert record is not None
    times = [
        float(np.median([float(s) for s in r.run_secs])) for r in database.get_all_tuning_records()
    ]
    assert len(times) == 8
    assert database.query_schedule(module, target, "main") is not None


def test_a_similar_workload_starts_from_known_tiles(tmp_path: Path) -> None:
    target = parse_target("cpu")
    gradient = TuneSettings(Method("gradient"), trials=4, rules=QUICK)
    tune(matmul(32, 16, 24), target, gradient, project=tmp_path, output=tmp_path / "a")
    result = tune(matmul(64, 16, 24), target, gradient, project=tmp_path, output=tmp_path / "b")
    assert len(result.record.starts) == 2
    # Inner tiles are those of the smaller size, in the same order; the outermost level grows.
    for trial, start in zip(result.trials, result.record.starts, strict=False):
        assert trial.point is not None
        tiles = np.array(start["tiles"])
        assert (trial.point.tiles[0][:, 1:] == tiles[:, 1:]).all()
    other = replace(gradient, fresh=True)
    fresh = tune(matmul(64, 16, 24), target, other, project=tmp_path, output=tmp_path / "c")
    assert fresh.record.starts == ()


def test_a_library_that_does_other_work_is_no_reference(tmp_path: Path) -> None:
    from tvm import te

    a, b = te.placeholder((8, 4), name="a"), te.placeholder((4, 8), name="b")
    bias, k = te.placeholder((8,), name="bias"), te.reduce_axis((0, 4), name="k")
    c = te.compute((8, 8), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    d = te.compute((8, 8), lambda i, j: c[i, j] + bias[j], name="d")
    biased = Program("biased", te.create_prim_func([a, b, bias, d]))
    settings = replace(RANDOM, trials=1)
    result = tune(biased, parse_target("cpu"), settings, project=tmp_path, output=tmp_path / "out")
    assert result.winner is not None
    assert result.winner.reference is None
    assert "reference" not in result.facts


def test_ctrl_c_keeps_the_best_and_the_run_goes_on(program: Program, tmp_path: Path) -> None:
    target = parse_target("cpu")

    def press(trial: Trial) -> None:
        if trial.index == 2:
            os.kill(os.getpid(), signal.SIGINT)

    stopped = tune(program, target, RANDOM, project=tmp_path, output=tmp_path / "o", on_trial=press)
    assert stopped.interrupted
    assert len(stopped.trials) == 3
    assert (tmp_path / "o" / "kernel.so").exists()
    again = tune(program, target, RANDOM, project=tmp_path, output=tmp_path / "o")
    assert (len(again.trials), again.measured, again.interrupted) == (6, 3, False)


def test_a_run_that_is_worked_on_is_left_alone(program: Program, tmp_path: Path) -> None:
    target = parse_target("cpu")
    open_tunings(tmp_path).close()
    with (
        run_lock(tmp_path, f"tune-{identity_of(program, target, RANDOM)}"),
        pytest.raises(StorageError, match="already working"),
    ):
        tune(program, target, RANDOM, project=tmp_path, output=tmp_path / "o")


def test_a_comparison_is_resumed_and_confirmed_together(program: Program, tmp_path: Path) -> None:
    target = parse_target("cpu")
    group = Group(program, 0, {"random": 4, "af-ds": 4}, (2, 4))

    class Stop(Exception):
        pass

    def stop(arm: str, trials: int, best: float | None) -> None:
        raise Stop

    with pytest.raises(Stop):
        run_group(group, target, tmp_path, QUICK, stop)
    assert not is_finished(group, target, read_runs(tmp_path))
    kept = {f.name: f.read_text() for f in (tmp_path / "measurements").iterdir()}
    assert sum(text.count("\n") for text in kept.values()) == 4
    (tmp_path / "measurements" / next(iter(kept))).open("a").write('{"half": ')
    lines = run_group(group, target, tmp_path, QUICK)
    assert is_finished(group, target, read_runs(tmp_path))
    assert {line["arm"] for line in lines} == {"random", "af-ds"}
    assert {line["session"] for line in lines} == {lines[0]["session"]}
    assert not is_finished(replace(group, checkpoints=(1, 4)), target, read_runs(tmp_path))
    assert not is_finished(replace(group, after_s=(60.0,)), target, read_runs(tmp_path))
    for line in lines:
        assert len(line["curve"]) == 4
        assert set(line["confirmed"]) == {"2", "4"}
    name, text = next(iter(kept.items()))
    assert (tmp_path / "measurements" / name).read_text().startswith(text)


@pytest.mark.slow  # starts programs where --quick cannot see it
def test_the_plug_ins_work_in_stock_metaschedule(
    program: Program, task: Task, tmp_path: Path
) -> None:
    from tvm.s_tir import meta_schedule as ms

    from tilewright.tuner.search import RandomSearch
    from tilewright.tuner.space import TileSpace
    from tilewright.tuner.structure import cpu_structure
    from tilewright.tuner.tvm import rules
    from tilewright.tuner.tvm.analysis import analyse
    from tilewright.tuner.tvm.plugins import IsolatedRunner, ThreadedBuilder, TileSearchStrategy
    from tilewright.tuner.tvm.template import Template

    target = parse_target("cpu")
    anatomy = analyse(program.function, program.name)
    structure = cpu_structure(anatomy.workload, restricted=True)
    space_rules = rules.template(target, structure)
    reader = rules.context(program.function, target, space_rules, "replay-trace", 0)
    template = Template(reader, anatomy, structure)
    search = RandomSearch(TileSpace(anatomy.workload, structure), 4, batch=2)
    strategy = TileSearchStrategy(search, template)
    context = rules.context(program.function, target, space_rules, strategy, 0)
    with Runner(task, "cpu", 1, QUICK) as runner:
        database = ms.tune.tune_tasks(
            tasks=[context],
            task_weights=[1.0],
            work_dir=str(tmp_path),
            max_trials_global=4,
            num_trials_per_iter=2,
            builder=ThreadedBuilder(tmp_path),
            runner=IsolatedRunner(runner),
            database="memory",
            cost_model="random",
            measure_callbacks=[ms.measure_callback.AddToDatabase()],
            task_scheduler="round-robin",
        )
    assert len(database) == 4
