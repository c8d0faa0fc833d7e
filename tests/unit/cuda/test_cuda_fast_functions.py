"""Fast functions of CUDA are exact in one of the two programs on the CPU, and have the errors that
CUDA allows in the other one."""

from __future__ import annotations

import shutil
from functools import cache

import numpy as np
import pytest

from tilewright.core.records import Argument
from tilewright.targets.cuda.cpu_program import find_cpu_compiler
from tilewright.targets.cuda.emulation import Run, run_on_cpu
from tilewright.targets.cuda.launcher import call

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++ on PATH")

N = 4096
ARGUMENTS = (
    Argument("X", (N,), "float32", "input"),
    Argument("Y", (N,), "float32", "output"),
)
CALLS = {
    "expf": ("__expf(x)", -60.0, 60.0),
    "rsqrtf": ("rsqrtf(x)", 0.01, 100.0),
    "fdividef": ("__fdividef(3.0f, x)", 0.01, 100.0),
    "logf": ("__logf(x)", 0.5, 100.0),
    "sinf": ("__sinf(x)", -3.0, 3.0),
    "tanf": ("__tanf(x)", -1.2, 1.2),
    "powf": ("__powf(x, 2.5f)", 0.1, 10.0),
    "expf of special values": ("__expf(blockIdx.x % 2 ? -1000.0f : 1000.0f)", 0.0, 1.0),
    "logf of special values": ("__logf(blockIdx.x % 2 ? -x : 1.0f)", 1.0, 2.0),
}
SOURCE = f"""
__global__ void of_each(const float *X, float *Y, int which) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float x = X[i], y = 0.0f;
  switch (which) {{
    {" ".join(f"case {i}: y = {text}; break;" for i, (text, _, _) in enumerate(CALLS.values()))}
  }}
  Y[i] = y;
}}
void kernel(const float *X, float *Y, int which) {{ of_each<<<{N // 128}, 128>>>(X, Y, which); }}
"""


@cache
def program(races: bool) -> bytes:
    built = find_cpu_compiler().compile(SOURCE, call(ARGUMENTS, ("which",)), 120.0, races)
    assert isinstance(built, bytes), built
    return built


def results(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The arguments, and the results in both programs."""
    which = list(CALLS).index(name)
    _, low, high = CALLS[name]
    x = np.random.default_rng(3).uniform(low, high, N).astype(np.float32)
    initial = {"X": x, "Y": np.zeros(N, np.float32)}
    found = []
    for races in (False, True):
        sandbox = find_cpu_compiler().sandbox
        runs = [Run(initial, "forward", 5, large=True)]
        ran = run_on_cpu(program(races), sandbox, ARGUMENTS, (which,), runs, 60.0)
        assert ran.failed is None
        found.append(np.frombuffer(ran.outputs[0]["Y"], np.float32))
    return x.astype(float), found[0], found[1]


def allowed(name: str, x: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """The largest absolute error that the CUDA C++ Programming Guide documents."""
    ulp = np.spacing(np.abs(exact)).astype(float)
    if name == "expf":
        return ulp * (2 + np.floor(np.abs(1.173 * x)))
    if name == "logf":
        return np.where(x <= 2, np.maximum(2**-21.41, ulp), 3 * ulp)
    if name == "sinf":
        return np.full(N, 2**-21.41)
    if name == "tanf":  # of a product of a sine and the inverse of a cosine, rounded twice
        return (2**-21.41 + np.abs(exact) * 2**-21.19) / np.cos(x) + 2 * ulp
    if name == "powf":  # of 2^(2.5 * __log2f(x)), where the product is rounded
        log2 = np.abs(np.log2(x))
        error = np.where((x >= 0.5) & (x <= 2), 2**-22, 2 * np.spacing(log2.astype(np.float32)))
        return (
            exact * np.log(2) * (2.5 * error + np.spacing((2.5 * log2).astype(np.float32)))
            + 4 * ulp
        )
    return 2 * ulp


@pytest.mark.parametrize("name", [name for name in CALLS if "special" not in name])
def test_errors_are_within_the_documented_bounds_and_reach_them(name: str) -> None:
    x, exact, found = results(name)
    error, most = np.abs(found.astype(float) - exact), allowed(name, x, exact)
    # Above a power of two, the distance of two numbers is twice the one below.
    assert (error <= 2 * most).all()
    assert (error <= most).mean() > 0.99
    assert (error > most / 2).mean() > 0.02
    assert (np.sign(found) == np.sign(exact)).all()
    assert (error == 0).mean() < 0.2


@pytest.mark.parametrize("name", [name for name in CALLS if "special" in name])
def test_special_values_are_exact(name: str) -> None:
    _, exact, found = results(name)
    np.testing.assert_array_equal(found, exact)


def test_most_errors_of_large_powers_are_many_digits() -> None:
    x, exact, found = results("expf")
    error = np.abs(found.view(np.int32) - exact.view(np.int32))[np.abs(x) > 40]
    assert (error > 1).mean() > 0.9
