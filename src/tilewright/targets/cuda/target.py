"""`CudaTarget`: opens workloads and folders as tasks, and reports what is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import FolderTemplate, TargetBrief
from tilewright.native.settings import LATENCY, EvaluationSettings
from tilewright.native.target import require_linux
from tilewright.parts.brief_files import load_examples, load_menu, load_template, render
from tilewright.parts.folder import read_folder
from tilewright.parts.languages import CUDA
from tilewright.targets.cuda.cpu_program import find_cpu_compiler
from tilewright.targets.cuda.device.baselines import baselines_of
from tilewright.targets.cuda.device.build import FLAGS as DEVICE_FLAGS
from tilewright.targets.cuda.device.gpus import HOW_TO_GET, find_gpu
from tilewright.targets.cuda.device.peaks import in_words, measured_peaks
from tilewright.targets.cuda.device.tuned import tunable
from tilewright.targets.cuda.faults import KINDS as FAILURES
from tilewright.targets.cuda.kernelbench import wrong_products
from tilewright.targets.cuda.launcher import parameters
from tilewright.targets.cuda.models.oracle import find_torch
from tilewright.targets.cuda.nvcc import FLAGS, find_nvcc
from tilewright.targets.cuda.occupancy import Architecture, architectures
from tilewright.targets.cuda.problems import create_problem
from tilewright.targets.cuda.settings import (
    PRECISIONS,
    chosen_architecture,
    lowest_precision,
    names,
)
from tilewright.targets.cuda.shapes import KINDS, MOST_BYTES, REGISTERED, Shape, parse_shape
from tilewright.targets.cuda.task import CudaTask
from tilewright.targets.cuda.templates import filled, templates_of

FOLDER = Path(__file__).parent


class CudaTarget:
    """CUDA C++ kernels for one NVIDIA GPU."""

    name = "cuda"
    task: type[CudaTask] = CudaTask
    """The class of tasks for workloads and folders."""

    @cached_property
    def _brief(self) -> TargetBrief:
        return TargetBrief(
            name=self.name,
            isa=render(FOLDER / "isa.md", self._words),
            rules=render(FOLDER / "rules.md", {}),
            menu=load_menu(FOLDER / "menu.toml", {}),
            commands=(),
            limits=architecture_for({}).limits,
            constants={},
            language=CUDA,
            latency=LATENCY,
            examples=load_examples(FOLDER / "examples", {}),
            costs=render(FOLDER / "costs.md", {}).strip(),
            plan_hints=render(FOLDER / "plan_hints.md", {}).strip(),
            settings={"arch": names(), "precision": tuple(PRECISIONS)},
            failures=FAILURES,
            computations={name: kind.text for name, kind in KINDS.items()},
        )

    @property
    def _words(self) -> Mapping[str, str]:
        """The words of isa.md."""
        return {"limits": architecture_for({}).in_words}

    def brief(self) -> TargetBrief:
        """A description of the GPU, the rules, the menu and the limits."""
        return self._brief

    def template(self) -> FolderTemplate:
        """What `tilewright init` writes: a matrix product."""
        return load_template(FOLDER / "template.toml", {})

    def workloads(self) -> Mapping[str, str]:
        """Patterns and registered names."""
        patterns = {f"{name}-{kind.pattern}": kind.text for name, kind in KINDS.items()}
        return {**patterns, **REGISTERED}

    def open(self, spec: str, settings: Mapping[str, object]) -> CudaTask:
        """The workload named by `spec`, with its naive starting kernel."""
        require_linux(self.name)
        shape = parse_shape(spec)
        reduced, start = self.reduced(shape), self.starting_kernel(shape)
        architecture, lowest = architecture_for(settings), lowest_precision(settings)
        gpu = find_gpu()
        return self.task(
            shape.workload(self.name),
            reduced.workload(self.name),
            reduced.sizes,
            start,
            create_problem(reduced, lowest),
            EvaluationSettings.from_mapping(settings),
            architecture,
            {"naive": start, **pytorch(shape)},
            create_problem(shape),
            shape.sizes,
            gpu,
            self.templates_of(shape, architecture, lowest),
            lambda: wrong_products(shape, 0),
            lowest,
            tunable(shape, gpu) if gpu else None,
        )

    def reduced(self, shape: Shape) -> Shape:
        """The workload with sizes that are small enough for a check on the CPU."""
        return shape.reduced()

    def starting_kernel(self, shape: Shape) -> str:
        """The plain kernel of a workload, with its sizes as the launcher's defaults."""
        text = (FOLDER / "library" / f"{shape.kind}.cu").read_text(encoding="utf-8")
        own = parameters(shape.arguments, shape.sizes)
        return f"// {self._sizes(shape)}\n{filled(text, shape.values).replace('PARAMETERS', own)}"

    def templates_of(
        self, shape: Shape, architecture: Architecture, lowest: str
    ) -> Mapping[str, str]:
        """Kernels with free parameters that come with tilewright, by name."""
        return templates_of(shape, architecture, lowest)

    def _sizes(self, shape: Shape) -> str:
        """The sentence about sizes at the beginning of a starting kernel."""
        reduced = self.reduced(shape).sizes
        if reduced == shape.sizes:
            return "Checked and timed at the default sizes."
        checked = ", ".join(f"{name} = {n}" for name, n in reduced.items())
        return f"Timed at the default sizes; checked at {checked} as well."

    def open_folder(self, folder: Path, settings: Mapping[str, object]) -> CudaTask:
        """A user's kernel folder, which is run at its own shapes. Its launcher takes only
        arrays."""
        require_linux(self.name)
        workload, start, problem = read_folder(
            folder, self.name, self._brief.language, MOST_BYTES, "the memory of a GPU"
        )
        return self.task(
            workload, workload, {}, start, problem, EvaluationSettings.from_mapping(settings),
            architecture_for(settings), {}, problem, {}, find_gpu(),
            lowest=lowest_precision(settings),
        )  # fmt: skip

    @property
    def resource(self) -> str:
        """The model of the GPU. Without a GPU, kernels are only checked, which any machine with the
        compilers can do.
        """
        gpu = find_gpu()
        return f"gpu:{gpu.name}" if gpu else "cpu"

    @property
    def model_versions(self) -> frozenset[str]:
        """The GPU; a kernel is compiled for the one on which it runs."""
        return frozenset({"gpu"})

    def versions(self) -> Mapping[str, str]:
        """Both compilers and their options."""
        cpu, gpu = find_cpu_compiler(), find_gpu()
        return {
            **({"gpu": gpu.id, "timed by": f"wall time, {' '.join(DEVICE_FLAGS)}"} if gpu else {}),
            "compiler": find_nvcc().id,
            "build": " ".join(FLAGS),
            "checked by": f"{cpu.id}, emulator {cpu.build}",
        }

    def doctor(self) -> Sequence[tuple[str, bool | None, str]]:
        """Reports on the compilers and the GPU."""
        found = list[tuple[str, bool | None, str]]()
        try:
            require_linux(self.name)
            found.append(("CUDA compiler", True, f"{find_nvcc().id}, for {', '.join(names())}"))
        except ToolchainMissingError as error:
            found.append(("CUDA compiler", None, str(error)))
        try:
            found.append(("check on the CPU", True, find_cpu_compiler().id))
        except ToolchainMissingError as error:
            found.append(("check on the CPU", None, str(error)))
        gpu = find_gpu()
        if gpu is None:
            missing = f"none: kernels are compiled and checked, not timed; {HOW_TO_GET}"
            return [*found, ("GPU", None, missing)]
        found.append(("GPU", True, gpu.id))
        if found[0][1] and gpu.architecture in architectures():
            rates = measured_peaks(gpu, find_nvcc(), gpu.architecture)
            nothing = "not measured: shares refer to rates computed from the driver's clock rates"
            found.append(
                ("GPU peaks", True if rates else None, in_words(rates) if rates else nothing)
            )
        return found


def architecture_for(settings: Mapping[str, object]) -> Architecture:
    """The architecture for which kernels are compiled: the one that the settings name, otherwise
    that of this machine's GPU, or the default one."""
    gpu = find_gpu()
    return chosen_architecture(settings, gpu.architecture if gpu else None)


def pytorch(shape: Shape) -> Mapping[str, str]:
    """PyTorch's baselines for a workload, if there are a GPU and a PyTorch."""
    if find_gpu() is None:
        return {}
    try:
        find_torch()
    except ToolchainMissingError:
        return {}
    return baselines_of(shape)
