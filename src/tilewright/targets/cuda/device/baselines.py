"""PyTorch as a baseline: eager and compiled, with TF32 off and on, timed like a kernel. Kernels of
the tuner (`tuned.py`) are baselines too.

PyTorch is a program that answers the commands of `program.cu`, so that it is called on the same
arrays, compared by the same rules, and timed in the same pairs against the starting kernel.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tilewright.core.records import Artifact, Candidate, Failed, Measured, Verdict
from tilewright.core.roles import NOTHING_CHECKED, Builder, Checker, Runner
from tilewright.targets.cuda.device.evaluator import DeviceChecker, DeviceEvaluation
from tilewright.targets.cuda.device.runner import DeviceRunner
from tilewright.targets.cuda.device.tuned import TunedEvaluation, source_in
from tilewright.targets.cuda.nvcc import Compiled
from tilewright.targets.cuda.other_python import FoundPython
from tilewright.targets.cuda.shapes import Shape

PROGRAM = Path(__file__).with_name("torch_program.py")
DEVICE = "cuda"
TUNED = "from the tuner"
"""The end of the toolchain's name in the artifacts of the tuner's kernels. The builder writes it,
so a candidate cannot."""
WAYS = {
    "PyTorch": (False, False), "PyTorch, TF32": (False, True), "torch.compile": (True, False),
    "torch.compile, TF32": (True, True),
}  # fmt: skip
"""For each baseline by name: whether it is compiled, and whether products may be rounded to
TF32.
"""
_COMPUTES = {
    "gemm": "torch.matmul(A, B)",
    "matmul3d": "torch.matmul(A, W)",
    "softmax": "torch.softmax(X, 1)",
    "rowsum": "X.sum(1)",
    "chain": "torch.nn.functional.silu(X * scale + bias) * G",
    "stencil": (
        "0.5 * X[1:-1, 1:-1] + 0.125 * (X[:-2, 1:-1] + X[2:, 1:-1] + X[1:-1, :-2] + X[1:-1, 2:])"
    ),
    "conv2d": "torch.nn.functional.conv2d(X, F, stride={T}, padding={P})",
    "conv2dbias": "torch.nn.functional.conv2d(X, F, bias, stride={T}, padding={P})",
    "conv3d": "torch.nn.functional.conv3d(X, F)",
}


def baselines_of(shape: Shape) -> dict[str, str]:
    """The text of each baseline, by its name, which says what it computes."""
    job = {
        "given": [a.name for a in shape.arguments if a.is_given],
        "shapes": [list(a.shape) for a in shape.arguments],
        "computes": _COMPUTES[shape.kind].format(**shape.values),
    }
    return in_every_way(job)


def in_every_way(job: Mapping[str, object]) -> dict[str, str]:
    """The baselines for the computation `job` (`torch_program.py`), by name."""
    return {
        name: json.dumps({**job, "device": DEVICE, "compiled": compiled, "tf32": tf32})
        for name, (compiled, tf32) in WAYS.items()
    }


@dataclass(frozen=True)
class TorchEvaluation(DeviceEvaluation):
    """The evaluation of a baseline, in which the program of PyTorch takes the place of a kernel's
    program.
    """

    of_kernels: DeviceEvaluation | None = None
    script: bytes = b""

    def built(self, source: str) -> tuple[bytes, Compiled] | Failed:
        """The program of the starting kernel, or of PyTorch."""
        if source == self.start and self.of_kernels is not None:
            return self.of_kernels.built(source)
        return self.script, Compiled((b"",), ())


class OnlyTheDevice:
    """Baselines are not checked on the CPU."""

    def check_first(self, artifact: Artifact) -> Verdict | Failed:
        """Does nothing."""
        return self.check(artifact)

    def check(self, artifact: Artifact, passed: Verdict = NOTHING_CHECKED) -> Verdict | Failed:
        """Does nothing."""
        return Failed("check", "not_checked", "it runs only on the GPU.")


class WithBaselines:
    """Builder, Checker and Runner of kernels and of baselines.

    A baseline is identified by its text and by its name as proposer. No proposer has such a name,
    so no candidate of a search is mistaken for a baseline. `torch` is only needed if PyTorch is
    among the baselines.
    """

    def __init__(
        self,
        roles: tuple[Builder, Checker, Runner],
        evaluation: DeviceEvaluation,
        baselines: Mapping[str, str],
        torch: FoundPython | None,
    ) -> None:
        self._roles, self._evaluation, self._torch = roles, evaluation, torch
        self._names = {text: name for name, text in baselines.items() if name in WAYS}

    @cached_property
    def sandbox(self) -> str:
        """The sandbox of the compiler."""
        return str(getattr(self._roles[0], "sandbox", ""))

    def build(self, candidate: Candidate) -> Artifact | Failed:
        """A kernel's program, or that of a baseline."""
        tuned = source_in(candidate.source, candidate.proposer)
        if tuned is not None:
            return self._built(candidate, tuned)
        if self._torch is None or self._names.get(candidate.source) != candidate.proposer:
            return self._roles[0].build(candidate)
        script = self._script(candidate.source)
        toolchain = f"PyTorch {self._torch.version}"
        return Artifact(candidate.id, script, toolchain, candidate.source)

    def check_first(self, artifact: Artifact) -> Verdict | Failed:
        """Check the first case."""
        return self._for(artifact)[0].check_first(artifact)

    def check(self, artifact: Artifact, passed: Verdict = NOTHING_CHECKED) -> Verdict | Failed:
        """Check all cases with the checker of the artifact's kind."""
        return self._for(artifact)[0].check(artifact, passed)

    def measure(
        self, artifact: Artifact, verdict: Verdict, limit_latency: float | None
    ) -> Measured | Failed:
        """Time a kernel in pairs with the starting kernel."""
        return self._for(artifact)[1].measure(artifact, verdict, limit_latency)

    def _script(self, source: str) -> bytes:
        text = PROGRAM.read_text(encoding="utf-8")
        assert self._torch is not None
        return f"#!{self._torch.python} -I\n{text}\n\nmain({json.loads(source)!r})\n".encode()

    def _built(self, candidate: Candidate, source: str) -> Artifact | Failed:
        built = self._of_tuner.built(source)
        if isinstance(built, Failed):
            return built
        toolchain = f"{self._of_tuner.compiler.nvcc.id}, {TUNED}"
        return Artifact(candidate.id, built[0], toolchain, source)

    @cached_property
    def _of_tuner(self) -> TunedEvaluation:
        return TunedEvaluation(**self._shared, lowest=self._evaluation.lowest)

    @property
    def _shared(self) -> dict[str, Any]:
        """What the evaluation of baselines has in common with that of kernels."""
        own = self._evaluation
        names = ("workload", "sizes", "problem", "settings", "architecture", "start", "gpu",
                 "compiler", "_built", "facts")  # fmt: skip
        return {**{name: getattr(own, name) for name in names}, "of_kernels": own}

    def _for(self, artifact: Artifact) -> tuple[Checker, Runner]:
        if artifact.toolchain.endswith(f", {TUNED}"):
            evaluation: DeviceEvaluation = self._of_tuner
            return DeviceChecker(evaluation, OnlyTheDevice()), DeviceRunner(evaluation)
        if not artifact.binary.startswith(b"#!"):
            return self._roles[1], self._roles[2]
        job = json.loads(artifact.source)
        own = self._evaluation
        lowest = "tf32-like" if job["tf32"] and not own.lowest else own.lowest
        evaluation = TorchEvaluation(**self._shared, lowest=lowest, script=artifact.binary)
        return DeviceChecker(evaluation, OnlyTheDevice()), DeviceRunner(evaluation)
