"""TVM's CUDA code as a file that needs no TVM, and the kernel that a tuning run stores."""

from __future__ import annotations

import importlib
import io
import json
from contextlib import closing
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

if find_spec("tvm") is None:
    pytest.skip("needs the extra 'tune' (TVM)", allow_module_level=True)

from tilewright.cli import console
from tilewright.cli.tune_progress import TuneProgress
from tilewright.cli.tune_result import show_result
from tilewright.storage.project import open_tunings, tuned_kernels
from tilewright.tuner.tvm.cuda import cuda_source, cuda_space
from tilewright.tuner.tvm.launchable import launchable
from tilewright.tuner.tvm.lowered import launch_extents
from tilewright.tuner.tvm.programs import conv2d, matmul
from tilewright.tuner.tvm.setup import ARMS, method_name
from tilewright.tuner.tvm.targets import parse_target
from tilewright.tuning.runs import tune
from tilewright.tuning.stored import TuneSettings
from tilewright.tuning.winner import Winner

MOCK = Path(__file__).parents[3] / "benchmarks" / "gpu"


def test_the_arrays_are_passed_in_the_order_of_the_code_and_the_launch_has_its_sizes() -> None:
    target, program = parse_target("nvidia/h100"), conv2d(1, 4, 8, 8, 8, 3, 1, 1)
    space = cuda_space(program, target, restricted=True)
    module = space.template.schedule(space.space.random(1, np.random.default_rng(1))).mod
    found, problem = launchable(program.function, module, cuda_source(module, target.target))
    assert found is not None
    assert problem == ""
    assert "void kernel(const float *a0, const float *a1, float *a2) {" in found
    assert "main_kernel(float* __restrict__ conv2d_nchw_ptr, float* __restrict__ data_ptr" in found
    grid, block = (", ".join(map(str, sizes)) for sizes in launch_extents(module))
    assert f"<<<dim3({grid}), dim3({block})>>>((float *)a2, (float *)a0, (float *)a1);" in found
    assert "extern" not in found
    assert "#if" not in found


def test_code_that_needs_more_than_one_launch_is_not_written() -> None:
    target, program = parse_target("nvidia/h100"), matmul(32, 32, 32)
    space = cuda_space(program, target, restricted=True)
    module = space.template.schedule(space.space.random(1, np.random.default_rng(0))).mod
    source = cuda_source(module, target.target)
    begin = source.index('extern "C"')
    twice = source + source[begin:].replace("main_kernel", "main_kernel_1")
    found, problem = launchable(program.function, module, twice)
    assert (found, problem) == (None, "its CUDA code has 2 GPU functions instead of one")
    dynamic = source.replace("__shared__ alignas(64) float A_sh", "extern __shared__ float A_sh", 1)
    assert dynamic != source
    found, problem = launchable(program.function, module, dynamic)
    assert (found, problem) == (None, "its CUDA code uses dynamic shared memory")


def test_methods_have_the_names_of_the_paper() -> None:
    assert method_name(ARMS["default"]) == "MetaSchedule"
    assert method_name(ARMS["af-ds"]) == "AF-DS"
    methods = [ARMS[arm] for arm in ("default", "af", "ds", "af-ds", "random")]
    methods += [replace(method, space="template") for method in methods[1:]]
    assert len({method_name(method) for method in methods}) == 9  # one baseline for each


def test_a_run_stores_its_own_kernel_even_if_an_earlier_run_found_a_faster_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(MOCK))
    instruments = importlib.import_module("mock_device").mock_instruments
    target = replace(parse_target("nvidia/h100"), present=True)
    program, method = matmul(64, 64, 64), ARMS["af-ds"]
    names = []
    for trials, seed, of in ((70, 0, "af-ds"), (1, 1, "random")):
        settings = TuneSettings(ARMS[of], trials, seed=seed)
        result = tune(
            program, target, settings, project=tmp_path, output=tmp_path / of,
            open_instruments=instruments,
        )  # fmt: skip
        assert isinstance(result.winner, Winner)
        names.append(result.record.id)
    assert result.winner.found_by == names[0]
    found = tuned_kernels(tmp_path, program.name, target.device.name)
    assert [kernel.name for kernel in found] == [
        f"tune, {method_name(method)}, 70 trials", f"tune, {method_name(ARMS['random'])}, 1 trials",
    ]  # fmt: skip
    assert found[0].source != found[1].source
    assert found[1].source != (tmp_path / "random" / "kernel.cu").read_text()
    with closing(open_tunings(tmp_path)) as storage:
        assert storage.trials(found[1].run_id)[0].samples


def test_a_run_whose_kernel_cannot_be_a_baseline_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(MOCK))
    instruments = importlib.import_module("mock_device").mock_instruments
    problem = "its CUDA code uses dynamic shared memory"
    monkeypatch.setattr("tilewright.tuner.tvm.result.launchable", lambda *_: (None, problem))
    target = replace(parse_target("nvidia/h100"), present=True)
    program, folder = matmul(64, 64, 64), tmp_path / "tuned"
    result = tune(
        program, target, TuneSettings(ARMS["random"], 1), project=tmp_path, output=folder,
        open_instruments=instruments,
    )  # fmt: skip
    assert tuned_kernels(tmp_path, program.name, target.device.name) == []
    told = "The project does not store the best kernel of this run as a baseline of searches, "
    told += f"because {problem}."
    assert json.loads((folder / "result.json").read_text())["no_baseline"] == told
    out = io.StringIO()
    monkeypatch.setattr(console, "results", lambda: Console(file=out, width=200))
    show_result(result, TuneProgress(1, 10**9, 100.0, Console(file=io.StringIO())), folder)
    assert told in out.getvalue()
