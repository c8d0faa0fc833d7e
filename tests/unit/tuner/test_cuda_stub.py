"""The whole CUDA path up to the missing GPU: a stub of the driver lets TVM's CUDA runtime load."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("tvm") is None:
    pytest.skip("needs the extra 'tune' (TVM)", allow_module_level=True)

from tilewright.tuner.detect import detect_gpu

CUDA = Path("/usr/local/cuda/lib64")
TOOLS = ("nvcc", "cc", "nm")
SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "gpu" / "device_check.py"


@pytest.mark.slow
@pytest.mark.skipif(
    not all(map(shutil.which, TOOLS)) or not (CUDA / "libcudart.so.13").exists(),
    reason="needs nvcc and libcudart 13, cc and nm",
)
@pytest.mark.skipif(detect_gpu() is not None, reason="a CUDA driver is here")
def test_a_kernel_is_built_linked_and_loaded_and_only_the_launch_fails(tmp_path: Path) -> None:
    specification = importlib.util.find_spec("tvm")
    assert specification is not None
    assert specification.origin is not None
    runtime = Path(specification.origin).parent / "lib" / "libtvm_runtime_cuda.so"
    listed = subprocess.run(
        ["nm", "-D", "--undefined-only", runtime], capture_output=True, text=True, check=True
    ).stdout
    symbols = {line.split()[1].partition("@")[0] for line in listed.splitlines()}
    calls = sorted({s for s in symbols if s.startswith("cu") and s[2:3].isupper()} | {"cuInit"})
    source = tmp_path / "stub.c"
    source.write_text("".join(f"int {name}(void) {{ return 100; }}\n" for name in calls))
    stub = tmp_path / "libcuda.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", stub, source], check=True)
    done = subprocess.run(
        [sys.executable, SCRIPT, "smoke", tmp_path, "--target", "nvidia/h200"],
        env={**os.environ, "LD_LIBRARY_PATH": f"{tmp_path}:{CUDA}"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 1
    assert "CUDA Runtime Error" in done.stdout, done.stdout + done.stderr
    assert (tmp_path / "smoke.json").exists()
