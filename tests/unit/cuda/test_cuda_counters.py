"""Nsight Compute's counters in the feedback, with a program that stands for `ncu`."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tilewright.core.plugins import load_target
from tilewright.core.records import Artifact, Candidate, Failed, Measured
from tilewright.targets.cuda import create_target
from tilewright.targets.cuda.device import counters as module
from tilewright.targets.cuda.device.counters import Counters, NoCounters, find_ncu, read_counters
from tilewright.targets.cuda.device.remedies import CUDA, TRITON, Remedies, told_remedies
from tilewright.targets.cuda.task import CudaTask

NCU = """
import os, subprocess, sys
words = sys.argv[1:]
metrics = words[words.index("--metrics") + 1].split(",")
log = words[words.index("--log-file") + 1]
program = words[words.index("./program"):]
with open(__file__ + ".calls", "a") as calls:
    calls.write("called\\n")
status = subprocess.run(program, close_fds=False).returncode
values = VALUES
lines = ["==PROF== Connected to process 7 (program)", "==PROF== Disconnected from process 7"]
lines.append('"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream",'
             '"Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit",'
             '"Metric Value"')
for launch, factor in ((0, 1.0), (1, 0.5)):
    for metric in metrics:
        value = next((v for k, v in values.items() if k in metric), "n/a")
        text = value if isinstance(value, str) else f"{value * factor:,.2f}"
        lines.append(f'"{launch}","7","program","127.0.0.1","rowsum(float *, int)","1","7",'
                     f'"(256, 1, 1)","(8, 1, 1)","0","9.0","Command line profiler metrics",'
                     f'"{metric}","%","{text}"')
open(log, "w").write("\\n".join(lines) + "\\n")
sys.exit(status)
"""
VALUES = {
    "gpu__time_duration": "1,000",
    "warps_active": 80.0,
    "dram__throughput": 60.0,
    "lts__t_sector_hit_rate": 40.0,
    "sm__throughput": 20.0,
    "long_scoreboard": 12.0,
    "barrier": 4.0,
}
NOT_ALLOWED = (
    "==PROF== Connected to process 7 (program)\n"
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU "
    "Performance Counters on the target device 0.\n==PROF== Disconnected from process 7\n"
    "==WARNING== No kernels were profiled.\n"
)

Put = Callable[[str], Path]


@pytest.fixture
def put_ncu(gpu: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Put:
    """Puts a Python program on PATH as `ncu`; returns the file with a line for each call."""

    def put(text: str) -> Path:
        folder = tmp_path / "ncu"
        folder.mkdir()
        (folder / "ncu.py").write_text(text)
        (folder / "ncu").write_text(
            f'#!/bin/sh\nexec {sys.executable} -I "$(dirname "$0")/ncu.py" "$@"\n'
        )
        (folder / "ncu").chmod(0o755)
        for path in (tmp_path, folder):
            path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        find_ncu.cache_clear()
        return folder / "ncu.py.calls"

    find_ncu.cache_clear()
    return put


@pytest.fixture(autouse=True)
def forget() -> None:
    find_ncu.cache_clear()


def opened(**settings: object) -> CudaTask:
    return create_target().open(
        "rowsum-8x100", {"input_seed": 3, "simulation_timeout_s": 30.0, **settings}
    )


def measured(task: CudaTask, limit: float | None = None, source: str = "") -> Measured:
    builder, checker, runner = task.evaluator
    artifact = builder.build(Candidate(source or task.start))
    assert isinstance(artifact, Artifact), artifact
    verdict = checker.check_first(artifact)
    assert not isinstance(verdict, Failed), verdict.log
    found = runner.measure(artifact, verdict, limit)
    assert isinstance(found, Measured), found
    return found


def test_counters_are_said_in_words(put_ncu: Put) -> None:
    put_ncu(NCU.replace("VALUES", repr(VALUES)))
    found = measured(opened())
    assert "Counters (Nsight Compute, 2 launches): 60 % of the warps" in found.feedback
    assert "the memory is at 45 % of its peak rate" in found.feedback
    assert "30 % of the accesses to the second-level cache are hits" in found.feedback
    assert "the multiprocessors are at 15 % of their peak throughput" in found.feedback
    assert "tensor cores are busy" not in found.feedback  # n/a
    waits = "9.0 for data from global or local memory, 3.0 at barriers for other warps"
    assert waits in found.feedback
    told = "against waits for data from global or local memory: `async-copies`, `double-buffering`"
    assert told in found.feedback
    assert found.details["counter_memory_percent"] == pytest.approx(45.0)
    assert found.details["counter_waits_barrier"] == pytest.approx(3.0)


def test_counters_are_read_of_kernels_that_beat_all_before_them(put_ncu: Put) -> None:
    calls = put_ncu(NCU.replace("VALUES", repr(VALUES)))
    task = opened()
    measured(task)
    runner = task.evaluator[2]
    assert calls.read_text().count("called") == 1
    runner._fastest_s = 0.0  # type: ignore[attr-defined]
    assert "Counters" not in measured(task, limit=1e12).feedback
    assert calls.read_text().count("called") == 1


def test_a_user_who_may_not_read_counters_is_told_in_one_sentence(put_ncu: Put) -> None:
    denied = NCU.replace("values = VALUES", f"open(log, 'w').write({NOT_ALLOWED!r}); sys.exit(1)")
    calls = put_ncu(denied)
    task = opened()
    for _ in range(2):
        task.evaluator[2]._fastest_s = math.inf  # type: ignore[attr-defined]
        found = measured(task)
        said = [line for line in found.feedback.splitlines() if "ERR_NVGPUCTRPERM" in line]
        assert len(said) == 1
        assert said[0].count(". ") == 0
    assert calls.read_text().count("called") == 1  # the next kernel is not allowed either


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import sys; sys.exit(1)", "process on the GPU ended early"),
        (
            NCU.replace("values = VALUES", "open(log, 'w').close(); sys.exit(status)"),
            "it printed none",
        ),
        (
            NCU.replace(
                "values = VALUES", "open(log, 'w').write('==ERROR== Failed to x\\n'); sys.exit(1)"
            ),
            "Failed to x",
        ),
    ],
)
def test_whatever_ncu_does_the_kernel_keeps_its_result(text: str, words: str, put_ncu: Put) -> None:
    put_ncu(text)
    found = measured(opened())
    assert found.latency > 0
    assert words in found.feedback


def test_an_ncu_that_does_not_end_is_stopped(put_ncu: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    put_ncu(NCU.replace("values = VALUES", "import time; time.sleep(600)"))
    monkeypatch.setattr(module, "END_S", 1.0)
    assert "did not end" in measured(opened()).feedback


def test_without_ncu_nothing_is_said(gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PROGRAM", "no-such-program")
    find_ncu.cache_clear()
    assert "Nsight" not in measured(opened()).feedback


def test_longer_launches_count_for_more() -> None:
    lines = ['"ID","Metric Name","Metric Unit","Metric Value"']
    share = module._SHARES["memory"]
    for launch, (time, percent) in enumerate(((3000, 80.0), (1000, 40.0))):
        lines.append(f'"{launch}","gpu__time_duration.sum","ns","{time:,}"')
        lines.append(f'"{launch}","{share}","%","{percent}"')
    found = read_counters("\n".join(lines))
    assert isinstance(found, Counters)
    assert found.shares == {"memory": pytest.approx(70.0)}
    assert found.launches == 2


@pytest.mark.parametrize(
    "text",
    ["", "\0\0", '"ID","Metric Name","Metric Value"', '"ID","Metric Name","Metric Value"\n"0"',
     '"ID","Metric Name","Metric Value"\n"0","lts__t_sector_hit_rate.pct","nan"'],
)  # fmt: skip
def test_tables_without_numbers_are_no_counters(text: str) -> None:
    assert isinstance(read_counters(text), NoCounters)


MENUS = ((CUDA, "cuda"), (TRITON, "triton"))


@pytest.mark.parametrize(("remedies", "target"), MENUS)
def test_every_remedy_is_an_option_of_the_menu(remedies: Remedies, target: str) -> None:
    menu = {option.id for option in load_target(target).brief().menu}
    assert {option for options in remedies.values() for option in options} <= menu


def test_remedies_are_told_for_the_longest_waits_few_warps_and_spills() -> None:
    waits = {"barrier": 3.0, "mio_throttle": 1.1, "wait": 0.2, "membar": 3.0}
    said = told_remedies(CUDA, "memory", 8, Counters(1, {"occupancy": 49.0}, waits))
    causes = ("spilled registers", "few resident warps", "waits at barriers")
    assert [said.count(f"against {cause}: `") for cause in causes] == [1, 1, 1]
    assert said.count("against ") == 3  # the other waits are short, or no option helps
    said = told_remedies(CUDA, "memory", 0, Counters(1, {"occupancy": 50.0}, {"membar": 1.0}))
    assert said == ""


def test_without_counters_the_bound_names_options() -> None:
    said = told_remedies(TRITON, "products", 0, None)
    assert said.endswith("`tile-shape`, `tensor-core-products`.")
    assert told_remedies(TRITON, "", 0, None) == ""
