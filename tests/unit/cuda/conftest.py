"""A machine with a GPU, made of this CPU: a driver, a compiler, and programs that really run."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilewright.sandbox import find_sandbox
from tilewright.targets.cuda import launches
from tilewright.targets.cuda.device.gpus import find_gpu
from tilewright.targets.cuda.device.peaks import measured_peaks
from tilewright.targets.cuda.emulator_files import EMULATOR
from tilewright.targets.cuda.evaluation import CudaEvaluation
from tilewright.targets.cuda.models import oracle, problem_file
from tilewright.targets.cuda.nvcc import Compiled, Nvcc, Resources, find_nvcc
from tilewright.targets.cuda.other_python import FoundPython

FAKE = Path(__file__).with_name("fake_gpu")
GPU = "Emulated GPU, GPU-0, 9.0, 64, 1.2.3"


def make_toolkit(folder: Path) -> Path:
    """Its `bin`, with nvcc and nvidia-smi."""
    programs, library = folder / "bin", folder / "lib"
    shutil.copytree(EMULATOR, library)
    shutil.copy(FAKE / "more.h", library)
    shutil.copy(Path(launches.__file__), library)
    for name in ("cuda_runtime.h", "cuda.h", "cuda_pipeline.h"):
        (library / name).write_text('#include "device.h"\n')
    programs.mkdir()
    shutil.copy(FAKE / "nvcc.py", programs)
    scripts = {
        "nvcc": f'exec {sys.executable} -I "$(dirname "$0")/nvcc.py" "$@"',
        "nvidia-smi": f'case "$1" in *clocks.sm*) echo 1500;; *) echo "{GPU}";; esac',
    }
    for name, text in scripts.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    words = ["-std=c++17", "-w", "-O2", "-fno-pie", "-DSERVES", "-c", "runtime.cpp"]
    subprocess.run(["g++", *words, "-o", "runtime.o"], cwd=library, check=True)
    sys.path.insert(0, str(FAKE))
    try:
        from nvcc import renamed  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(FAKE))
    renamed(str(library / "runtime.o"))
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)
    return programs


@pytest.fixture(scope="session")
def gpu_toolkit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that PATH begins with on a machine that has the GPU."""
    for name in ("g++", "objcopy"):
        if shutil.which(name) is None:
            pytest.skip(f"needs {name} on PATH")
    return make_toolkit(tmp_path_factory.mktemp("gpu") / "toolkit")


@pytest.fixture
def gpu(gpu_toolkit: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process, and those that it starts, find the GPU."""
    monkeypatch.setenv("PATH", f"{gpu_toolkit}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(gpu_toolkit / "cache"))
    measured_peaks.cache_clear()
    find_gpu.cache_clear()
    find_nvcc.cache_clear()
    yield
    find_gpu.cache_clear()
    find_nvcc.cache_clear()


@pytest.fixture
def stand_in_for_torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Problems are answered by `fake_oracle.py`, and nvcc says that kernels compile."""
    numpy = Path(str(importlib.util.find_spec("numpy").origin)).parent.parent  # type: ignore[union-attr]
    roots = [Path(sys.prefix), Path(sys.base_prefix), numpy]
    probe = [sys.executable, "-c", "import numpy"]
    torch = FoundPython(sys.executable, "none", find_sandbox(roots, probe))
    monkeypatch.setattr(oracle, "find_torch", lambda: torch)
    monkeypatch.setattr(oracle, "_PROGRAM", Path(__file__).with_name("fake_oracle.py"))
    function = Resources("product", 1, 0, 0)
    monkeypatch.setattr(CudaEvaluation, "compiled", lambda self, source: Compiled(b"", (function,)))
    monkeypatch.setattr(CudaEvaluation, "nvcc", Nvcc("", "none", None))  # type: ignore[arg-type]
    yield
    oracle.process_of.cache_clear()
    problem_file._described.cache_clear()
