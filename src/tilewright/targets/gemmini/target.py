"""`GemminiTarget`: opens workloads and folders as tasks, and says what is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import TargetBrief
from tilewright.core.roles import Task
from tilewright.targets.gemmini import workloads
from tilewright.targets.gemmini.baselines import convolution_baselines, gemm_baselines
from tilewright.targets.gemmini.brief import load_brief
from tilewright.targets.gemmini.convolution import Convolution
from tilewright.targets.gemmini.external.tools import HOW_TO_GET as HOW_TO_GET_TOOLS
from tilewright.targets.gemmini.external.tools import find_tool
from tilewright.targets.gemmini.folder import read_folder
from tilewright.targets.gemmini.problem import ConvolutionProblem, GemmProblem, Problem
from tilewright.targets.gemmini.settings import EvaluationSettings
from tilewright.targets.gemmini.simulator import versions as simulator_versions
from tilewright.targets.gemmini.task import KernelTask
from tilewright.targets.gemmini.toolchain import HOW_TO_GET, find_toolchain

NAME = "gemmini"


class GemminiTarget:
    """Gemmini with the default int8 16x16 configuration of `target.toml`."""

    name = NAME

    @cached_property
    def _brief(self) -> TargetBrief:
        return load_brief(NAME)

    def brief(self) -> TargetBrief:
        """ISA, rules, menu, command effects and limits."""
        return self._brief

    def workloads(self) -> Mapping[str, str]:
        """Registered names, and the pattern for any other sizes."""
        return {**workloads.PATTERNS, **workloads.REGISTERED}

    def open(self, spec: str, settings: Mapping[str, object]) -> Task:
        """The GEMM or convolution named by `spec`, with its naive starting kernel."""
        shape = workloads.parse_workload(spec)
        chosen = EvaluationSettings.from_mapping(settings)
        problem: Problem
        if isinstance(shape, Convolution):
            problem, kernels = ConvolutionProblem(shape), convolution_baselines(shape)
        else:
            problem, kernels = GemmProblem(shape), gemm_baselines(shape)
        return KernelTask(shape.workload(NAME), kernels["naive"], problem, chosen, kernels)

    def open_folder(self, folder: Path, settings: Mapping[str, object]) -> Task:
        """A user's kernel folder; its reference runs only in the process that evaluates."""
        workload, start, problem = read_folder(folder, NAME)
        return KernelTask(workload, start, problem, EvaluationSettings.from_mapping(settings))

    def versions(self) -> Mapping[str, str]:
        """Compiler, how it is used, simulator model and configuration hash."""
        toolchain = find_toolchain()
        return {"compiler": toolchain.id, "build": toolchain.build, **simulator_versions()}

    def doctor(self) -> Sequence[tuple[str, bool | None, str]]:
        """The compiler that would be used, the co-simulator, and the tools beside it."""
        return [self._compiler(), self._simulator(), *map(_tool, HOW_TO_GET_TOOLS)]

    def _compiler(self) -> tuple[str, bool, str]:
        try:
            return "RISC-V compiler", True, find_toolchain().id
        except ToolchainMissingError:
            return "RISC-V compiler", False, HOW_TO_GET

    def _simulator(self) -> tuple[str, bool, str]:
        try:
            return "Gemmini co-simulator", True, f"model {simulator_versions()['simulator']}"
        except ToolchainMissingError as error:
            return "Gemmini co-simulator", False, str(error)


def _tool(name: str) -> tuple[str, bool | None, str]:
    try:
        return name, True, " ".join(find_tool(name).command)
    except ToolchainMissingError:
        return name, None, f"optional: {HOW_TO_GET_TOOLS[name]}"
