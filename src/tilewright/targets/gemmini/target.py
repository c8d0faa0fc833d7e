"""`GemminiTarget`, which opens workloads and folders as tasks and reports what is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import FolderTemplate, TargetBrief
from tilewright.core.roles import Task
from tilewright.parts.brief_files import load_template
from tilewright.parts.folder import read_folder
from tilewright.parts.languages import C
from tilewright.parts.problem import Problem
from tilewright.targets.gemmini import workloads
from tilewright.targets.gemmini.baselines import (
    convolution_baselines,
    gemm_baselines,
    tinympc_baselines,
)
from tilewright.targets.gemmini.brief import FOLDER, load_brief, words
from tilewright.targets.gemmini.convolution import Convolution
from tilewright.targets.gemmini.external.tools import HOW_TO_GET as HOW_TO_GET_TOOLS
from tilewright.targets.gemmini.external.tools import find_tool
from tilewright.targets.gemmini.instance import Instance
from tilewright.targets.gemmini.parameters import instance_name
from tilewright.targets.gemmini.problem import (
    ConvolutionProblem,
    FloatConvolutionProblem,
    FloatGemmProblem,
    GemmProblem,
)
from tilewright.targets.gemmini.settings import EvaluationSettings
from tilewright.targets.gemmini.simulator import model_version
from tilewright.targets.gemmini.simulator import versions as simulator_versions
from tilewright.targets.gemmini.sizes import MAX_ARGUMENT_BYTES, MAX_ARGUMENTS
from tilewright.targets.gemmini.source_rules import HEADERS
from tilewright.targets.gemmini.task import KernelTask
from tilewright.targets.gemmini.tinympc import TinyMpc
from tilewright.targets.gemmini.tinympc_problem import TinyMpcProblem
from tilewright.targets.gemmini.toolchain import (
    CONFIGURATION_HEADER,
    HOW_TO_GET,
    RUNTIME,
    find_toolchain,
)


class GemminiTarget:
    """One Gemmini configuration; workload names begin with the target's `name`."""

    def __init__(self, name: str, configuration: Path) -> None:
        self.name = name
        self._configuration = configuration

    @cached_property
    def instance(self) -> Instance:
        """The checked configuration; `ConfigurationError` says what is wrong with it."""
        return Instance.load(self.name, self._configuration)

    @cached_property
    def _brief(self) -> TargetBrief:
        return load_brief(self.instance)

    def configured(self, file: Path) -> GemminiTarget:
        """The instance that a user's target.toml describes; `ConfigurationError` says what is
        wrong.
        """
        target = GemminiTarget(instance_name(file), file)
        _ = target.instance
        return target

    @property
    def resource(self) -> str:
        """The resource of machines with the co-simulator and a compiler."""
        return "gemmini-sim"

    def brief(self) -> TargetBrief:
        """ISA, rules, menu, command effects and limits."""
        return self._brief

    def workloads(self) -> Mapping[str, str]:
        """Registered names, and the pattern for any other sizes."""
        return workloads.registered(self.instance)

    def open(self, spec: str, settings: Mapping[str, object]) -> Task:
        """The task of the workload `spec`, with its naive starting kernel."""
        instance = self.instance
        shape = workloads.parse_workload(spec, instance)
        chosen = EvaluationSettings.from_mapping(settings)
        problem: Problem
        if isinstance(shape, Convolution):
            of_type = ConvolutionProblem if instance.is_integer else FloatConvolutionProblem
            problem, kernels = of_type(shape), convolution_baselines(shape, instance)
        elif isinstance(shape, TinyMpc):
            problem, kernels = TinyMpcProblem(shape), tinympc_baselines(shape, instance)
        else:
            problem = (GemmProblem if instance.is_integer else FloatGemmProblem)(shape)
            kernels = gemm_baselines(shape, instance)
        workload, start = shape.workload(instance), kernels["naive"]
        return KernelTask(instance, workload, start, problem, chosen, kernels)

    def open_folder(self, folder: Path, settings: Mapping[str, object]) -> Task:
        """The task of a kernel folder, whose reference runs only in the evaluating process."""
        workload, start, problem = read_folder(
            folder,
            self.name,
            C,
            max_arguments=MAX_ARGUMENTS,
            max_bytes=MAX_ARGUMENT_BYTES,
            memory="the simulated memory",
        )
        chosen = EvaluationSettings.from_mapping(settings)
        return KernelTask(self.instance, workload, start, problem, chosen)

    def template(self) -> FolderTemplate:
        """The files that `tilewright init` writes, which describe a matrix product."""
        return load_template(FOLDER / "template.toml", words(self.instance))

    def headers(self) -> Mapping[str, str]:
        """All headers of tilewright that a kernel includes or may include."""
        own = {path.name: path for path in RUNTIME.glob("*.h") if path.name in HEADERS}
        texts = {name: own[name].read_text(encoding="utf-8") for name in sorted(own)}
        return {CONFIGURATION_HEADER: self.instance.header, **texts}

    def versions(self) -> Mapping[str, str]:
        """The compiler, its flags, the simulator's model and a hash of the configuration."""
        toolchain = find_toolchain()
        return {
            "compiler": toolchain.id,
            "build": toolchain.build,
            **simulator_versions(self.instance),
        }

    def doctor(self) -> Sequence[tuple[str, bool | None, str]]:
        """The state of the compiler, the co-simulator and the external tools."""
        return [self._compiler(), self._simulator(), *self._tools()]

    def _compiler(self) -> tuple[str, bool, str]:
        try:
            return "RISC-V compiler", True, find_toolchain().id
        except ToolchainMissingError:
            return "RISC-V compiler", False, HOW_TO_GET

    def _simulator(self) -> tuple[str, bool, str]:
        try:
            return "Gemmini co-simulator", True, f"model {model_version()}"
        except ToolchainMissingError as error:
            return "Gemmini co-simulator", False, str(error)

    def _tools(self) -> list[tuple[str, bool | None, str]]:
        chipyard = self.instance.chipyard
        return [_tool(name, chipyard) for name in HOW_TO_GET_TOOLS]


def _tool(name: str, chipyard: Path | None) -> tuple[str, bool | None, str]:
    try:
        return name, True, " ".join(find_tool(name, chipyard).command)
    except ToolchainMissingError:
        return name, None, f"optional: {HOW_TO_GET_TOOLS[name]}"
