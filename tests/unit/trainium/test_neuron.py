"""`--simulator neuron`, with fakes of the AWS SDK's packages and commands."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tilewright.core.errors import ToolchainMissingError, UnknownNameError
from tilewright.core.records import ExternalResult, Failed
from tilewright.targets.trainium import create_target
from tilewright.targets.trainium.task import TrainiumTask

WORKLOAD = """
target = "trainium"
operations = 8192
tolerance = { absolute = 1e-2, relative = 1e-2 }
[constants]
factor = 2
kind = "bfloat16"
[[argument]]
name = "x"
shape = [32, 256]
dtype = "bfloat16"
role = "input"
[[argument]]
name = "y"
shape = [32, 256]
dtype = "bfloat16"
role = "output"
"""
KERNEL = """import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


def unused(x):
    return nl.load(x)


@nki.jit
def doubled(x, *, factor, kind):
    y = nl.ndarray(x.shape, dtype=kind, buffer=nl.shared_hbm)
    nl.store(y, nl.load(x) * factor)
    return y
"""
NKI = """
import numpy as np

class Jitted:
    def __init__(self, func): self.func = func

def jit(func): return Jitted(func)

def _run(func, args, kwargs):
    assert func.__name__ == "doubled" and kwargs["kind"] == "a type", kwargs
    x = args[0] if args else kwargs["x"]
    return (x.astype(np.float32) * {factor}).astype(x.dtype)

def baremetal(func): return lambda *args, **kwargs: _run(func, args, kwargs)

def benchmark(warmup, iters, save_neff_name):
    def of(func):
        def run(*args, **kwargs):
            open(save_neff_name, "w").write("program")
            run.benchmark_result = run.nc_latency = run
            run.get_latency_percentile = lambda p: 31.5 + p - 99
        return run
    return of
"""
PROFILER = """#!/bin/sh
test "$2" = -n && test -f "$3" || exit 1
test "$1" = view && echo '{"n1": {"total_time": 2.5e-05, "instructions": 7, "name": "a"}}'
exit 0
"""


@pytest.fixture
def task(tmp_path: Path) -> TrainiumTask:
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    (tmp_path / "reference.py").write_text("def reference(x):\n    return x + x\n")
    (tmp_path / "kernel.py").write_text(KERNEL)
    return create_target().open_folder(tmp_path, {})


@pytest.fixture
def sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders of packages and of commands, which come first."""
    packages, commands = tmp_path / "packages", tmp_path / "bin"
    package = packages / "neuronxcc" / "nki"
    package.mkdir(parents=True)
    (packages / "neuronxcc" / "__init__.py").touch()
    (package / "__init__.py").write_text(NKI.replace("{factor}", "2"))
    (package / "language.py").write_text("bfloat16 = 'a type'\n")
    information = packages / "neuronx_cc-2.21.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: neuronx-cc\nVersion: 2.21.0\n"
    )
    commands.mkdir()
    for name, text in (("neuron-ls", "#!/bin/sh\n"), ("neuron-profile", PROFILER)):
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", str(packages))
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TILEWRIGHT_NEURON_PYTHON", sys.executable)
    return package


def ran(task: TrainiumTask, timeout_s: float = 60) -> ExternalResult | Failed:
    return task.external("neuron")(KERNEL, timeout_s)


def test_a_kernel_is_run_timed_and_profiled(task: TrainiumTask, sdk: Path) -> None:
    found = ran(task)
    assert isinstance(found, ExternalResult), found
    assert (found.simulator, found.latency, found.unit) == ("neuron", 31_500, "ns")
    assert found.versions == {"neuronx-cc": "2.21.0"}
    assert found.details == {"total_time": 2.5e-05, "instructions": 7}
    assert found.instructions == 7


def test_a_wrong_output_is_refused_with_an_element(task: TrainiumTask, sdk: Path) -> None:
    (sdk / "__init__.py").write_text(NKI.replace("{factor}", "2.5"))
    found = ran(task)
    assert isinstance(found, Failed)
    assert (found.stage, found.kind) == ("measure", "wrong_result")
    assert "y[" in found.log


def test_outputs_of_zeros_alone_are_no_result(task: TrainiumTask, sdk: Path) -> None:
    (sdk / "__init__.py").write_text(NKI.replace("{factor}", "0"))
    found = ran(task)
    assert isinstance(found, Failed)
    assert found.kind == "no_result"
    assert "nothing but zeros" in found.log


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("def baremetal", "def simulate", "has no baremetal"),
        ("def benchmark", "def bench", "has no benchmark"),
        ("    x = args", "    raise ValueError('no NeuronCore')\n    x = args", "no NeuronCore"),
    ],
)
def test_an_sdk_that_does_not_run_the_kernel_says_why(
    task: TrainiumTask, sdk: Path, old: str, new: str, words: str
) -> None:
    (sdk / "__init__.py").write_text(NKI.replace("{factor}", "2").replace(old, new))
    found = ran(task)
    assert isinstance(found, Failed)
    assert found.kind == "no_result"
    assert words in found.log


def test_an_sdk_that_never_ends_is_stopped(task: TrainiumTask, sdk: Path) -> None:
    text = NKI.replace("{factor}", "2").replace(
        "    x = args", "    import time; time.sleep(60)\n    x = args"
    )
    (sdk / "__init__.py").write_text(text)
    found = ran(task, timeout_s=3)
    assert isinstance(found, Failed)
    assert found.kind == "timeout"


def test_without_the_profiler_there_are_no_details(
    task: TrainiumTask, sdk: Path, tmp_path: Path
) -> None:
    (tmp_path / "bin" / "neuron-profile").write_text("#!/bin/sh\nexit 1\n")
    found = ran(task)
    assert isinstance(found, ExternalResult), found
    assert found.details == {}


def test_without_the_sdk_it_is_said_how_to_set_up_an_instance(
    task: TrainiumTask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TILEWRIGHT_NEURON_PYTHON", str(tmp_path / "none"))
    with pytest.raises(ToolchainMissingError, match="trn1 or trn2 instance"):
        task.external("neuron")
    with pytest.raises(UnknownNameError, match="verilator"):
        task.external("verilator")


def test_an_instance_without_its_commands_is_no_instance(
    task: TrainiumTask, sdk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(sdk))
    with pytest.raises(ToolchainMissingError, match="neuron-ls"):
        task.external("neuron")
