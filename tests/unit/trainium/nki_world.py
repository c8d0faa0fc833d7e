"""Small kernels, traced and run: what the tests of the interpreter share."""

from __future__ import annotations

import textwrap
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright.core.records import Argument
from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.machine import load_machine
from tilewright.targets.trainium.program import Call, parse, run_program, trace_program
from tilewright.targets.trainium.trace import Trace

BF16 = ml_dtypes.bfloat16
SMALL = (
    "rmsnorm-128x600",
    "layernorm-128x512",
    "gemm-256x512x256",
    "mamba-1x128x2x32",
    "attention-512x128",
    "sd_attention-512x64",
    "cumsum-128x1100",
    "transpose-1x256x128",
    "maxpool-140x150-k3",
    "rope-128x64",
    "conv1d-1x128x40-k3",
    "conv2d-1x128x8x16x128-k3",
    "causal_attention-512x128",
    "attention_tile-1024x128-q6",
    "multihead_attention-1x512x128",
)
"""A workload of every kind at a size that runs in milliseconds."""

TRN1, TRN2 = load_machine("trn1"), load_machine("trn2")

_HEADS = {
    1: "import neuronxcc.nki as nki\nimport neuronxcc.nki.language as nl\n"
    "import neuronxcc.nki.isa as nisa\nimport numpy as np\n\n",
    2: "import nki\nimport nki.language as nl\nimport nki.isa as nisa\n\n",
}


class Kernel:
    """A kernel made of a body, with inputs and one or more outputs; traced when it is made."""

    def __init__(
        self,
        body: str,
        *,
        out: tuple[int, ...] | dict[str, tuple[tuple[int, ...], str]] = (4, 8),
        dtype: str = "float32",
        language: int = 1,
        machine: Any = TRN1,
        before: str = "",
        **arrays: np.ndarray,
    ) -> None:
        outputs = out if isinstance(out, dict) else {"out": (out, dtype)}
        lines = [
            f"    {name} = nl.ndarray({shape}, dtype=nl.{kind}, buffer=nl.shared_hbm)"
            for name, (shape, kind) in outputs.items()
        ]
        self.source = (
            _HEADS[language]
            + textwrap.dedent(before)
            + f"\n@nki.jit\ndef kernel({', '.join(arrays)}):\n"
            + "\n".join(lines)
            + "\n"
            + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
            + f"\n    return {', '.join(outputs)}\n"
        )
        self.machine = machine
        self.arrays = arrays
        self.call = Call(
            tuple(Argument(n, a.shape, a.dtype.name, "input") for n, a in arrays.items()),
            tuple(Argument(n, shape, kind, "output") for n, (shape, kind) in outputs.items()),
            {},
        )
        self.program = parse(self.source)
        self.trace: Trace = trace_program(self.program, self.call, machine)

    def run(self, **options: Any) -> np.ndarray:
        """The (first) output."""
        return self.all(**options)[0]

    def all(self, **options: Any) -> list[np.ndarray]:
        """All outputs."""
        return run_program(self.program, self.call, self.machine, self.arrays, **options)

    def opcodes(self) -> list[str]:
        """Of all instructions but transfers, in order."""
        return [i.opcode for i in self.trace.instructions if i.engine != "dma"]


def refused(body: str, code: str, **options: Any) -> KernelError:
    """The error, while tracing or running, that a kernel must end with."""
    with pytest.raises(KernelError) as caught:
        Kernel(body, **options).run()
    assert caught.value.code == code, str(caught.value)
    return caught.value


def numbers(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    """Normal deviates."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def bf16(values: np.ndarray) -> np.ndarray:
    """Rounded to bfloat16, as float32."""
    return values.astype(BF16).astype(np.float32)
