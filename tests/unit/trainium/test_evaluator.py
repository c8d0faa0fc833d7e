"""What becomes of kernels that are wrong in ways only a Trainium task notices."""

from __future__ import annotations

import re
import resource
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tilewright.core.errors import WorkloadError
from tilewright.core.plugins import load_target
from tilewright.core.records import (
    Argument,
    Candidate,
    EvaluationRequest,
    Failed,
    Measured,
    Outcome,
    Verdict,
)
from tilewright.evaluation.pipeline import evaluate
from tilewright.evaluation.screening import below_floor
from tilewright.sandbox import call_contained
from tilewright.targets.trainium import (
    create_target,
    create_trn2_target,
    evaluator,
    interpreter_process,
)
from tilewright.targets.trainium.call_memory import CallMemory
from tilewright.targets.trainium.interpreter import _limit
from tilewright.targets.trainium.interpreter_process import Interpretation
from tilewright.targets.trainium.machine import load_machine
from tilewright.targets.trainium.program import Call, parse, trace_program
from tilewright.targets.trainium.roofline import roofline_ns
from tilewright.targets.trainium.shapes import REGISTERED
from tilewright.targets.trainium.task import TrainiumTask

WORKLOAD = """
target = "trainium"
operations = 1024
tolerance = { absolute = 1e-3, relative = 1e-3 }
[[argument]]
name = "x"
shape = [4, 256]
dtype = "float32"
role = "input"
[[argument]]
name = "out"
shape = [4, 256]
dtype = "float32"
role = "output"
"""
HEAD = """import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import neuronxcc.nki.isa as nisa


@nki.jit
def kernel(x):
    out = nl.ndarray((4, 256), dtype=nl.float32, buffer=nl.shared_hbm)
"""
DOUBLED = "    nl.store(out, nl.load(x) * 2.0)\n"


def kernel(body: str) -> str:
    return HEAD + body + "    return out\n"


@pytest.fixture
def task(tmp_path: Path) -> TrainiumTask:
    return task_in(tmp_path)


def task_in(folder: Path) -> TrainiumTask:
    (folder / "workload.toml").write_text(WORKLOAD)
    (folder / "reference.py").write_text("def reference(x):\n    return x * x.dtype.type(2)\n")
    (folder / "kernel.py").write_text(kernel(DOUBLED))
    return create_target().open_folder(folder, {})


def outcome(task: TrainiumTask, source: str, limit: float | None = None) -> Outcome:
    kinds = create_target().brief().failure_kinds
    return evaluate(
        task.evaluator, EvaluationRequest(Candidate(source), limit), kinds=lambda: kinds
    )


def source_line(beginning: str, body: str = DOUBLED) -> int:
    """The number of the line that begins so, without its indentation."""
    lines = [text.strip() for text in kernel(body).splitlines()]
    return 1 + next(n for n, text in enumerate(lines) if text.startswith(beginning))


def failed(task: TrainiumTask, body: str) -> Failed:
    found = outcome(task, kernel(body))
    assert isinstance(found, Failed), found
    return found


def test_a_folders_kernel_is_checked_and_modelled(task: TrainiumTask) -> None:
    found = outcome(task, task.start)
    assert isinstance(found, Measured), found
    assert (found.quantity, found.unit) == ("modelled", "ns")
    assert found.details["bytes_read"] == found.details["bytes_written"] == 4096
    assert found.details["transfers"] == 2
    assert "reads 0.00 MB from HBM" in found.feedback
    assert "line 9: " in found.feedback


def test_a_slow_kernel_is_stopped_before_it_is_run_on_data(task: TrainiumTask) -> None:
    found = outcome(task, kernel("    nl.store(out, nl.load(x) * 3.0)\n"), limit=1.0)
    assert isinstance(found, Failed)
    assert (found.stage, found.kind) == ("measure", "slower_than_limit")


def test_a_wrong_kernel_is_refused_with_an_element(task: TrainiumTask) -> None:
    found = failed(task, "    nl.store(out, nl.load(x) * 2.1)\n")
    assert (found.stage, found.kind) == ("check", "wrong_result")
    assert "out[" in found.log


def test_undefined_elements_are_told_from_wrong_ones(task: TrainiumTask) -> None:
    found = failed(task, "    nl.store(out[:, 0:200], nl.load(x[:, 0:200]) * 2.0)\n")
    assert found.kind == "uninitialised_read"
    assert "224 of 1024 elements of out are undefined: they were never stored" in found.log
    assert found.line == source_line("out = nl.ndarray")


@pytest.mark.parametrize(
    ("body", "line", "reason"),
    [
        (
            """    tile = nl.ndarray((4, 256), dtype=nl.float32)
    tile[:, 0:200] = nl.load(x[:, 0:200])
    twice = tile * 2.0
    same = nl.copy(twice)
    nl.store(out, same)
""",
            "twice = tile",
            "reads elements of the tensor tile of line 9 that were never written or lie outside",
        ),
        (
            """    unused = nl.ndarray((4, 256), dtype=nl.float32)
    unused[...] = unused * 2.0
    large = nl.exp(nl.abs(nl.load(x)) + 100.0)
    none = nl.subtract(large, large)
    nl.store(out, nl.add(none, 1.0))
""",
            "none = nl.subtract",
            "subtract computes undefined values (NaN) from defined ones",
        ),
        (
            """    part = nl.ndarray((4, 256), dtype=nl.float32)
    part[:, 0:200] = nl.load(x[:, 0:200])
    total = nl.zeros((4, 256), dtype=nl.float32)
    total += part * 2.0
    nl.store(out, total)
""",
            "total += part",
            "reads elements of the tensor part of line 9 that were never written",
        ),
    ],
)
def test_undefined_elements_name_the_line_that_they_follow_from(
    task: TrainiumTask, body: str, line: str, reason: str
) -> None:
    found = failed(task, body)
    assert found.kind == "uninitialised_read"
    assert reason in found.log
    assert found.line == source_line(line, body)


def test_iterations_that_depend_on_their_order_are_noticed(task: TrainiumTask) -> None:
    body = """    scratch = nl.ndarray((4, 256), dtype=nl.float32, buffer=nl.hbm)
    nl.store(scratch, nl.load(x))
    for i in nl.affine_range(2):
        nl.store(scratch, nl.load(scratch) * (2 - i) + i)
    nl.store(out, nl.load(scratch) - 1.0)
"""
    found = failed(task, body)
    assert found.kind == "non_deterministic"
    assert "sequential_range" in found.log


def test_a_cast_that_the_compiler_may_leave_out_counts_either_way(task: TrainiumTask) -> None:
    body = """    wide = nl.ndarray((4, 256), dtype=nl.float32)
    wide[...] = nisa.tensor_scalar(nl.load(x), nl.multiply, 2.0, dtype=nl.bfloat16)
    nl.store(out, wide)
"""
    assert isinstance(outcome(task, kernel(body)), Measured)


def test_what_is_not_supported_says_so_with_its_line(task: TrainiumTask) -> None:
    found = failed(task, "    nisa.exponential(nl.load(x), 5)\n")
    assert (found.stage, found.kind, found.line) == ("build", "compile_error", 9)
    assert "nisa.exponential is not supported" in found.log


def test_tiles_that_do_not_fit_are_refused_in_nki_2(task: TrainiumTask) -> None:
    source = """import nki
import nki.language as nl
import nki.isa as nisa


@nki.jit
def kernel(x):
    out = nl.ndarray((4, 256), dtype=nl.float32, buffer=nl.shared_hbm)
    tiles = [nl.ndarray((128, 60000), dtype=nl.float32) for _ in range(2)]
    for t in tiles:
        nisa.memset(t, 2.0)
    nisa.dma_copy(tiles[0][0:4, 0:256], x)
    part = tiles[0][0:4, 0:256]
    nisa.tensor_tensor(part, part, tiles[1][0:4, 0:256], nl.multiply)
    nisa.dma_copy(out, tiles[0][0:4, 0:256])
    return out
"""
    found = outcome(task, source)
    assert isinstance(found, Failed)
    assert (found.stage, found.kind, found.line) == ("build", "limit_exceeded", 9)
    assert "480000 bytes per partition" in found.log


def test_a_run_ends_with_its_time(tmp_path: Path, task: TrainiumTask) -> None:
    short = create_target().open_folder(tmp_path, {"simulation_timeout_s": 0.05})
    body = "    for i in nl.sequential_range(20000):\n        nl.store(out, nl.load(x) * 2.0)\n"
    found = outcome(short, kernel(body))
    assert isinstance(found, Failed)
    assert (found.stage, found.kind) == ("check", "timeout")
    assert found.log == "the kernel was stopped after 0.05 s of processor time."


def test_only_its_own_work_counts_against_a_run() -> None:
    """On a busy machine the processes of others take most of the time."""

    def waits() -> bytes:
        _limit(0.2)
        time.sleep(0.5)
        return b"over"

    def works() -> bytes:
        _limit(0.2)
        while time.process_time() < 60:
            pass
        return b"over"

    assert call_contained(waits) == b"over"
    with pytest.raises(OSError, match=f"status {-signal.SIGPROF}"):
        call_contained(works)


def test_the_interpreter_is_started_again_when_it_ends(task: TrainiumTask) -> None:
    assert isinstance(outcome(task, task.start), Measured)
    ((_, process),) = interpreter_process._idle
    process.kill()
    process.wait()
    assert isinstance(outcome(task, task.start), Measured)


def test_tasks_of_one_process_use_one_interpreter(tmp_path: Path) -> None:
    """Starting one takes 0.3 s of imports."""
    used = set()
    for _ in range(2):
        task = task_in(tmp_path)
        assert isinstance(outcome(task, task.start), Measured)
        used |= {process.pid for _, process in interpreter_process._idle}
    assert len(used) == 1


def test_wrong_values_of_a_task_are_refused_by_its_own_hostile_kernels(task: TrainiumTask) -> None:
    for name, source in task.hostile_kernels().items():
        assert isinstance(outcome(task, source), Failed), name


CONSTANTS = """
[constants]
factor = 2
mode = "double"
kind = "float32"
sizes = [4, 256]
"""


_MOVES = WORKLOAD.replace("operations = 1024", "operations = 0")


def _with_constants(folder: Path) -> str:
    source = kernel(
        "    assert mode == 'double' and kind == x.dtype and sizes == x.shape\n" + DOUBLED
    )
    source = source.replace("def kernel(x):", "def kernel(x, *, factor, mode, kind, sizes):")
    (folder / "workload.toml").write_text(_MOVES + CONSTANTS)
    (folder / "reference.py").write_text(
        "def reference(x, factor):\n    return x * x.dtype.type(factor)\n"
    )
    (folder / "kernel.py").write_text(source)
    assert source.count("factor") == 1
    return source


def test_a_folder_gives_constants_to_kernel_and_reference(tmp_path: Path) -> None:
    source = _with_constants(tmp_path)
    found = outcome(create_target().open_folder(tmp_path, {}), source)
    assert isinstance(found, Measured), found
    assert 0 < found.utilization < 1  # of moving each array once: nothing is multiplied
    assert found.details["launch_ns"] == 15_000
    assert "15.00 us that the launch of any kernel takes" in found.feedback


def test_lists_and_tuples_stay_what_they_are() -> None:
    """The trace and the run on arrays must take the same branches."""
    constants = {"stride": [1, 1], "padding": ((0, 0), (1, 1)), "epsilon": 0.5, "mode": "same"}
    source = kernel(
        "    assert stride == [1, 1] and padding == ((0, 0), (1, 1)) and padding[1] == (1, 1)\n"
        "    assert epsilon == 0.5 and mode == 'same'\n" + DOUBLED
    ).replace("def kernel(x):", "def kernel(x, *, stride, padding, epsilon, mode):")
    array = Argument("x", (4, 256), "float32", "input")
    call = Call((array,), (replace(array, name="out", role="output"),), constants)
    machine = load_machine("trn1")
    trace_program(parse(source), call, machine)
    found = Interpretation(call, machine, 30, CallMemory(call)).run(
        source, {"x": np.ones((4, 256), np.float32)}
    )
    assert isinstance(found, dict), found


def test_compiled_kernels_take_no_constants_and_compute_something(tmp_path: Path) -> None:
    source = _with_constants(tmp_path)
    (tmp_path / "kernel.c").write_text(source)
    target = load_target("host-c")
    with pytest.raises(WorkloadError, match=r"take arrays only. Write the constants"):
        target.open_folder(tmp_path, {})
    (tmp_path / "workload.toml").write_text(_MOVES)
    with pytest.raises(WorkloadError, match="'operations': give a number greater than 0"):
        target.open_folder(tmp_path, {})


def test_the_list_of_workloads_says_how_kernels_are_called() -> None:
    known = create_target().workloads()
    assert (
        "kernel(input_tensor, gamma_vector, beta_vector, epsilon=1e-05) returns out"
        in (known["layernorm-4096x8192"])
    )
    assert "1e-5" in known["layernorm-RxC"]
    assert "without an epsilon" in known["rmsnorm-RxC"]


def test_the_feedback_says_at_which_lines_an_engine_waits(task: TrainiumTask) -> None:
    found = outcome(task, kernel(DOUBLED))
    assert isinstance(found, Measured)
    assert re.search(r"waits most at line 9 \([\d.]+ us for results of DMA\)", found.feedback)


def test_the_feedback_says_what_shortens_the_busiest_work_and_how_long_dma_is_idle(
    task: TrainiumTask,
) -> None:
    computing = outcome(task, kernel(DOUBLED))
    moving = task.modelled(kernel("    nl.store(out, nl.load(x))\n"))
    assert isinstance(computing, Measured)
    assert isinstance(moving, Measured)
    assert "ACT works longest: shorten its work, or move some of it" in computing.feedback
    assert "DMA works longest: only fewer bytes, or longer runs" in moving.feedback
    assert re.search(r"Busy share of each tenth .*: ACT( \d+%){10}\.", computing.feedback)
    for found in (computing, moving):
        idle, finish = re.findall(r"DMA is idle for ([\d.]+) us of ([\d.]+) us", found.feedback)[0]
        finish_ns = found.latency - found.details["launch_ns"]
        assert float(finish) == pytest.approx(finish_ns / 1e3, abs=0.01)
        assert float(idle) == pytest.approx((finish_ns - found.breakdown["DMA"]) / 1e3, abs=0.01)


def test_the_brief_says_what_plans_asked_for() -> None:
    brief = create_target().brief()
    assert "never wait for a buffer of another declaration" in brief.costs
    assert "nisa.engine.vector" in brief.isa
    assert "use `activation` with `nl.copy`" in brief.isa
    newer = create_trn2_target().brief()
    assert "gpsimd, scalar;" in newer.isa
    assert {"overlap-phases", "split-phases"} <= {option.id for option in brief.menu}


def test_a_kernel_that_stores_nothing_is_refused(task: TrainiumTask) -> None:
    found = outcome(task, kernel("    nl.store(out, nl.load(x, mask=False), mask=False)\n"))
    assert isinstance(found, Failed), found
    assert found.log == "kernel.py:7: err_tensor_output_not_written_to: nothing is written to out."


def test_a_walk_that_takes_all_memory_is_refused(
    task: TrainiumTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluator, "MOST_TRACE_BYTES", 64 << 20)
    before = resource.getrlimit(resource.RLIMIT_AS)
    # Memory that other tests have freed does not suffice either.
    held = kernel("    held = [[0] * 1000000 for i in range(2500)]\n" + DOUBLED)
    found = outcome(task, held)
    assert isinstance(found, Failed), found
    assert "too much memory" in found.log
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    assert isinstance(outcome(task, kernel(DOUBLED)), Measured)


@pytest.mark.parametrize("name", REGISTERED)
def test_the_floor_of_a_workload_is_its_roofline(name: str) -> None:
    task = create_target().open(name, {})
    found = Measured(1.0, "ns", "modelled", 1.0, Verdict(()))
    least, bound = task.floor(found)
    roofline, _ = roofline_ns(task.workload, create_target().machine)
    if name.startswith("conv2d"):  # Winograd's algorithm makes fewer products
        assert least < 15_000 + roofline
    else:
        assert least == 15_000 + roofline
    refused = below_floor(found, task.floor)
    assert isinstance(refused, Failed)
    assert refused.kind == "invalid"
    assert bound in refused.log


def test_the_floor_of_a_folder_counts_its_outputs(task: TrainiumTask) -> None:
    found = Measured(1.0, "ns", "modelled", 1.0, Verdict(()))
    assert task.floor(found)[0] == pytest.approx(15_000 + 4 * 256 * 4 / (16 * 17))
