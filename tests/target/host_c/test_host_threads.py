"""Kernels of several threads: as many as a target file declares, each on a core of its own."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

import pytest

from tilewright.core.errors import ConfigurationError
from tilewright.core.plugins import load_proposer
from tilewright.core.records import (
    Artifact,
    Brief,
    Candidate,
    EvaluationRequest,
    Failed,
    History,
    Measured,
    Outcome,
    Trial,
    Verdict,
)
from tilewright.core.roles import Builder, Checker, Runner
from tilewright.evaluation.pipeline import evaluate
from tilewright.native import machine
from tilewright.targets.host_c import create_target
from tilewright.targets.host_c.target import HostTarget

pytestmark = [
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler for this machine"),
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two threads need two cores"),
]
Evaluator = tuple[Builder, Checker, Runner]
SETTINGS = {"input_seed": 3, "simulation_timeout_s": 20.0}
TASK = "gemm-16x16x16"
ROWS = """\
typedef const float (*matrix)[16];
static void rows(int from, int to, matrix A, matrix B, float (*C)[16]) {
  for (int i = from; i < to; i++)
    for (int j = 0; j < 16; j++) {
      float sum = 0.0f;
      for (int k = 0; k < 16; k++) sum += A[i][k] * B[k][j];
      C[i][j] = sum;
    }
}
"""
HEAD = "void kernel(const float A[16][16], const float B[16][16], float C[16][16]) {\n"
OPENMP = f"""\
#include <omp.h>
{ROWS}{HEAD}
#pragma omp parallel num_threads(THREADS)
  {{
    int own = omp_get_thread_num(), all = omp_get_num_threads();
    rows(16 * own / all, 16 * (own + 1) / all, A, B, C);
  }}
}}
"""
PTHREADS = f"""\
#include <pthread.h>
{ROWS}
struct work {{ matrix A, B; float (*C)[16]; }};
static __attribute__((noinline, unused)) int found_on_stack(void) {{
  volatile int never_set[2048];
  int found = 0;
  for (int i = 0; i < 2048; i += 64) {{
    found |= never_set[i];
    never_set[i] = 1;
  }}
  return found;
}}
static void *first_half(void *given) {{
  struct work *w = given;
  FAULT
  rows(0, 8, w->A, w->B, w->C);
  return given;
}}
{HEAD}
  struct work work = {{A, B, C}};
  pthread_t id;
  void *returned = 0;
  for (int again = 0; again < 3; again++) {{
    pthread_create(&id, 0, first_half, &work);
    pthread_join(id, &returned);
  }}
  if (returned == &work) rows(8, 16, A, B, C);
}}
"""
LATE = f"""\
#include <pthread.h>
{ROWS}
static void *spin(void *given) {{
  for (volatile int spent = 0; spent < 5000000; spent++) {{}}
  return given;
}}
{HEAD}
  static pthread_t id;
  if (id) pthread_join(id, 0);
  rows(0, 16, A, B, C);
  pthread_create(&id, 0, spin, 0);
}}
"""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> HostTarget:
    file = tmp_path_factory.mktemp("target") / "pair.toml"
    file.write_text('target = "host-c"\nthreads = 2\n')
    return create_target().configured(file)


@pytest.fixture(scope="module")
def evaluator(target: HostTarget) -> Evaluator:
    return target.open(TASK, SETTINGS).evaluator


def outcome_of(evaluator: Evaluator, source: str) -> Outcome:
    return evaluate(evaluator, EvaluationRequest(Candidate(source)))


@pytest.mark.parametrize(
    "source", [OPENMP.replace("THREADS", "2"), PTHREADS.replace("FAULT", "")], ids=["omp", "posix"]
)
def test_two_threads_are_measured_by_the_clock_on_the_wall(
    evaluator: Evaluator, source: str
) -> None:
    measured = outcome_of(evaluator, source)
    assert isinstance(measured, Measured), measured
    assert (measured.versions["threads"], measured.versions["clock"]) == ("2", "wall time")
    assert "2 cores, one thread each" in measured.feedback


@pytest.mark.parametrize(
    "source",
    [
        OPENMP.replace("THREADS", "3"),
        PTHREADS.replace("FAULT", "").replace("    pthread_join(id, &returned);\n", ""),
    ],
    ids=["omp", "posix"],
)
def test_one_more_than_declared_is_refused_in_a_sentence(evaluator: Evaluator, source: str) -> None:
    refused = outcome_of(evaluator, source)
    assert isinstance(refused, Failed), refused
    assert refused.kind == "forbidden_call"
    assert "more than 1 thread in addition to the thread that calls it" in refused.log
    assert "declares 2 threads" in refused.log


@pytest.mark.skipif(platform.machine() != "x86_64", reason="they call x86-64's system by number")
@pytest.mark.parametrize(
    "name", ["start_a_thread", "start_a_process", "move_to_another_core", "set_a_timer"]
)
def test_past_the_declared_threads_the_system_gives_nothing(
    evaluator: Evaluator, name: str
) -> None:
    folder = Path(__file__).parents[2] / "exploits" / "host"
    refused = outcome_of(evaluator, (folder / f"{name}.c").read_text())
    assert isinstance(refused, Failed), refused
    assert refused.kind == "forbidden_call"


def test_a_fault_in_another_thread_names_its_line(evaluator: Evaluator) -> None:
    source = PTHREADS.replace("FAULT", "*(volatile float *)8 = 1;")
    failed = outcome_of(evaluator, source)
    assert isinstance(failed, Failed), failed
    line = source.split("\n").index("  *(volatile float *)8 = 1;") + 1
    assert (failed.kind, failed.line) == ("illegal_address", line)


@pytest.mark.parametrize(
    "source",
    [
        LATE,
        PTHREADS.replace("FAULT", "")
        .replace("again < 3", "again < 1")
        .replace("pthread_join(id, &returned);", "returned = &work;"),
    ],
    ids=["late", "posix"],
)
def test_a_thread_that_goes_on_after_the_call_is_refused(evaluator: Evaluator, source: str) -> None:
    refused = outcome_of(evaluator, source)
    assert isinstance(refused, Failed), refused
    assert refused.kind == "forbidden_call"
    assert "not joined" in refused.log


def test_a_thread_finds_nothing_on_its_stack(evaluator: Evaluator) -> None:
    outcome = outcome_of(evaluator, PTHREADS.replace("FAULT", "if (found_on_stack()) w->A += 1;"))
    assert isinstance(outcome, Measured), outcome


def test_the_stack_is_zero_in_every_call(evaluator: Evaluator) -> None:
    source = PTHREADS.replace("FAULT", "")
    source = source.replace(
        "void *returned = 0;", "void *returned = 0;\n  int dirty = found_on_stack();"
    )
    source = source.replace("if (returned == &work)", "if (!dirty && returned == &work)")
    outcome = outcome_of(evaluator, source)
    assert isinstance(outcome, Measured), outcome


def test_threads_are_not_detached_nor_mixed_with_openmp(evaluator: Evaluator) -> None:
    honest = PTHREADS.replace("FAULT", "")
    detached = honest.replace("pthread_join(id, &returned)", "pthread_detach(id)")
    mixed = honest.replace(
        "  pthread_t id;",
        "#pragma omp parallel num_threads(2)\n  rows(8, 16, A, B, C);\n  pthread_t id;",
    )
    for source, says in [
        (detached, "call pthread_join instead"),
        (mixed, "use only one of the two"),
    ]:
        failed = outcome_of(evaluator, source)
        assert isinstance(failed, Failed), failed
        assert says in failed.log, failed.log


def test_one_thread_is_what_is_declared_by_default() -> None:
    alone = create_target().open(TASK, SETTINGS).evaluator
    for source, kind in [(PTHREADS, "compile_error"), (OPENMP, "compile_error")]:
        failed = outcome_of(alone, source)
        assert isinstance(failed, Failed)
        assert failed.kind == kind
    undeclared = "int pthread_create();\n" + HEAD + "  pthread_create();\n}\n"
    failed = outcome_of(alone, undeclared)
    assert isinstance(failed, Failed)
    assert "may use only one thread" in failed.log


def test_proposers_are_told(target: HostTarget) -> None:
    brief = target.brief()
    assert brief.limits["threads"] == 2
    assert "At most 2 threads" in brief.rules
    assert "threads" in {option.id for option in brief.menu}
    alone = create_target().brief()
    assert "runs in one thread and must not make system calls" in alone.rules
    assert "threads" not in {option.id for option in alone.menu}


@pytest.mark.parametrize("spec", ["softmax-16x64", "attention-24x32", "conv-1x6x6x8x20-k3s1"])
def test_the_builtin_proposer_shares_loops_and_the_check_passes(
    target: HostTarget, spec: str
) -> None:
    task = target.open(spec, SETTINGS)
    builder, checker, _ = task.evaluator
    outcome = Failed("measure", "timeout", "not timed here")
    start = Trial(0, 0, Candidate(task.start), outcome)
    brief = Brief(task.workload, target.brief(), target.brief().menu, iteration=1, iterations=9)
    proposer = load_proposer("builtin")
    first, *others = proposer.plan(brief, start, History([start]), 4, 1)
    for plan in (first, *(p for p in others if p.option == "threads")):
        (candidate,) = proposer.implement(brief, start, plan, 1, 1)
        assert "#pragma omp parallel for num_threads(2)" in candidate.source
        artifact = builder.build(candidate)
        assert isinstance(artifact, Artifact), artifact
        assert b"GOMP_parallel" in artifact.binary, "the compiler ignored the pragma"
        verdict = checker.check(artifact)
        assert isinstance(verdict, Verdict), verdict


def test_nothing_else_is_built_on_cores_that_are_all_needed(
    target: HostTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = target.open(TASK, SETTINGS)
    for cores, most in ((2, 1), (8, 4)):
        monkeypatch.setattr(machine, "_usable", lambda cores=cores: frozenset(range(cores)))
        assert task.most_workers == most


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("threads = 0", "threads = 0"),
        ("threads = 65", "from 1 to 64"),
        ('threads = "2"', "whole number"),
        ("threads = true", "whole number"),
        ("cores = 2", "unknown field 'cores'"),
        ('name = "a b"', "name = 'a b'"),
        ("threads = 64", "64, but this process may use 2 cores"),
    ],
)
def test_a_bad_file_is_one_sentence(
    text: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_usable", lambda: frozenset({0, 1}))
    file = tmp_path / "mine.toml"
    file.write_text(f'target = "host-c"\n{text}\n')
    with pytest.raises(ConfigurationError, match=says):
        create_target().configured(file)
