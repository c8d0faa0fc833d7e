"""Kernels on a machine without a suitable GPU, where they cannot be timed."""

from __future__ import annotations

from dataclasses import replace

from tilewright.core.errors import NotTimedError
from tilewright.core.records import Artifact, Failed, Measured, Verdict
from tilewright.targets.cuda import partial_runs
from tilewright.targets.cuda.device.gpus import HOW_TO_GET, Gpu
from tilewright.targets.cuda.evaluation import CudaEvaluation
from tilewright.targets.cuda.occupancy import Architecture, architectures
from tilewright.targets.cuda.resources import in_words

NO_GPU = (
    "no NVIDIA GPU can be used on this machine. "
    f"To search for a faster kernel, {HOW_TO_GET} (docs/targets/cuda.md)"
)


def other_gpu(gpu: Gpu, architecture: Architecture) -> str | None:
    """Why kernels compiled for an architecture cannot be timed on a GPU, or None."""
    if gpu.architecture == architecture.name:
        return None
    if gpu.architecture not in architectures():
        return f"the GPU of this machine ({gpu.id}) is not one of {', '.join(architectures())}"
    return (
        f"the GPU of this machine ({gpu.id}) does not run what is compiled for "
        f"{architecture.name}: leave out `--set arch={architecture.name}` to compile for it"
    )


class CudaRunner:
    """Times nothing, because there is no suitable GPU."""

    def __init__(self, evaluation: CudaEvaluation, reason: str = NO_GPU) -> None:
        self._evaluation, self._reason = evaluation, reason

    def measure(
        self, artifact: Artifact, verdict: Verdict, limit_latency: float | None
    ) -> Measured | Failed:
        """Raises `NotTimedError` with the facts that are known about the kernel."""
        evaluation = self._evaluation
        compiled = evaluation.compiled(artifact.source)
        if isinstance(compiled, Failed):
            return replace(compiled, stage="measure")
        launches = evaluation.launches.get(artifact.source, ())
        words = in_words(compiled.functions, launches, evaluation.architecture)
        precision = verdict.precision or "precision class unknown"
        known = (
            f"is correct on the CPU ({precision}) in {len(verdict.checks)} comparisons "
            f"with threads in three orders{self._at(artifact.source)}. "
            f"Compiled for {evaluation.architecture.name}, {words}."
        )
        said = f"the kernel {known} The kernel cannot be timed, because {self._reason}."
        raise NotTimedError(said, known)

    def _at(self, source: str) -> str:
        some = self._evaluation.parts.get(source)
        if some is not None:
            return f" of {partial_runs.in_words(some)}"
        sizes = ", ".join(f"{name} = {size}" for name, size in self._evaluation.sizes.items())
        return f" ({sizes})" if sizes else ""
