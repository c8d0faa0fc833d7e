"""`TritonTarget`: the workloads of the target `cuda`, for kernels in Triton."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from tilewright.core.errors import ToolchainMissingError, WorkloadError
from tilewright.core.records import FolderTemplate, TargetBrief
from tilewright.parts.brief_files import load_examples, load_menu, load_template, render
from tilewright.parts.languages import TRITON
from tilewright.targets.cuda.occupancy import Architecture
from tilewright.targets.cuda.shapes import KINDS, REGISTERED, Shape, parse_shape
from tilewright.targets.cuda.target import CudaTarget
from tilewright.targets.cuda.task import CudaTask
from tilewright.targets.cuda.templates import filled
from tilewright.targets.cuda.triton.process import find_triton
from tilewright.targets.cuda.triton.task import TritonTask
from tilewright.targets.cuda.triton.templates import parameters, templates_of

FOLDER = Path(__file__).parent
FAILURES = {
    "not_checked": "only a GPU can run the kernel (inline assembly, 8-bit floats); it may be "
    "correct",
    "launch_failure": "a launch that every GPU refuses, because it has too many programs, or needs "
    "too much memory",
    "misaligned": "an access to an address that is not a multiple of the element's size",
    "unfinished": "an output changed after the kernel had returned",
    "keeps_memory": "the kernel keeps memory of the device from one call to the next",
    "race": "programs of one launch access the same element, one of them changes it, and no "
    "atomic operation lies between the accesses",
}
"""Kinds of failure that kernels in Triton can have in addition to the general ones."""


class TritonTarget(CudaTarget):
    """Kernels in Triton, for one NVIDIA GPU."""

    name = "triton"
    task = TritonTask

    @cached_property
    def _brief(self) -> TargetBrief:
        return replace(
            super()._brief, name=self.name, language=TRITON,
            menu=load_menu(FOLDER / "menu.toml", {}),
            examples=load_examples(FOLDER / "examples", {}),
            failures=FAILURES,
            isa=render(FOLDER / "isa.md", self._words),
            costs=render(FOLDER / "costs.md", {}).strip(),
            rules=render(FOLDER / "rules.md", {}),
            plan_hints=render(FOLDER / "plan_hints.md", {}).strip(),
        )  # fmt: skip

    def template(self) -> FolderTemplate:
        """What `tilewright init` writes: a matrix product."""
        return load_template(FOLDER / "template.toml", {})

    def workloads(self) -> Mapping[str, str]:
        """Patterns and registered names of the kinds that have a starting kernel."""
        patterns = {f"{n}-{kind.pattern}": kind.text for n, kind in KINDS.items() if _has_start(n)}
        named = {n: text for n, text in REGISTERED.items() if _has_start(n.partition("-")[0])}
        return {**patterns, **named}

    def open(self, spec: str, settings: Mapping[str, object]) -> CudaTask:
        """The workload named by `spec`, with its plain starting kernel."""
        shape = parse_shape(spec)
        if not _has_start(shape.kind):
            raise WorkloadError(
                f"workload {spec!r} has no starting kernel in Triton. Use cuda:{spec}, or a "
                "folder of your own (`tilewright init my-kernel --target triton`)."
            )
        return super().open(spec, settings)

    def reduced(self, shape: Shape) -> Shape:
        """The sizes that are interpreted, because each operation of a program takes 0.1 ms,
        whatever its tile."""
        reduced = shape.reduced()
        if not shape.kind.startswith("conv"):
            return reduced
        fewer = {"N": 1, "C": min(shape.values["C"], 3)}
        return replace(reduced, values={**reduced.values, **fewer})

    def starting_kernel(self, shape: Shape) -> str:
        """The plain kernel of a workload, with its sizes as the launcher's defaults."""
        text = filled(_library(shape.kind).read_text(encoding="utf-8"), shape.values)
        return f"# {self._sizes(shape)}\n{text.replace('PARAMETERS', parameters(shape))}"

    def templates_of(
        self, shape: Shape, architecture: Architecture, lowest: str
    ) -> Mapping[str, str]:
        """Triton kernels with free parameters that come with tilewright, by name."""
        return templates_of(shape, architecture, lowest)

    def versions(self) -> Mapping[str, str]:
        """The versions of the target `cuda`, and of Triton."""
        return {**super().versions(), "triton": find_triton().version}

    def doctor(self) -> Sequence[tuple[str, bool | None, str]]:
        """Reports on Triton, and on the compilers and the GPU as the target `cuda` does."""
        try:
            triton = find_triton()
        except ToolchainMissingError as error:
            return [("Triton", None, str(error))]
        return [("Triton", True, f"{triton.version} ({triton.python})")]


def _library(kind: str) -> Path:
    return FOLDER / "library" / f"{kind}.py"


def _has_start(kind: str) -> bool:
    return _library(kind).exists()
