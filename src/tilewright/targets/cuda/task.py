"""A workload on a GPU with its starting kernel. The evaluator is created when it is first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from tilewright.core.compiled_code import CompiledCode
from tilewright.core.records import AttackResult, Candidate, Failed, Workload, content_id
from tilewright.core.roles import Builder, CheckCase, Checker, Runner
from tilewright.core.tuning_records import TunableWorkload, TunedKernel
from tilewright.native.settings import EvaluationSettings
from tilewright.parts import inputs
from tilewright.parts.hostile import OpenCase
from tilewright.parts.languages import CUDA
from tilewright.parts.problem import Problem
from tilewright.targets.cuda.builder import CudaBuilder
from tilewright.targets.cuda.checker import CudaChecker
from tilewright.targets.cuda.device.baselines import WAYS, WithBaselines
from tilewright.targets.cuda.device.build import DeviceCompiler
from tilewright.targets.cuda.device.evaluator import (
    DeviceBuilder,
    DeviceChecker,
    DeviceEvaluation,
)
from tilewright.targets.cuda.device.gpus import Gpu
from tilewright.targets.cuda.device.runner import DeviceRunner
from tilewright.targets.cuda.device.tuned import text_of
from tilewright.targets.cuda.evaluation import CudaEvaluation
from tilewright.targets.cuda.hostile import hostile_kernels
from tilewright.targets.cuda.models.oracle import find_torch
from tilewright.targets.cuda.occupancy import Architecture
from tilewright.targets.cuda.source import refused
from tilewright.targets.cuda.untimed import NO_GPU, CudaRunner, other_gpu


class CudaTask:
    """The `Task` role, open to attacks."""

    evaluation = CudaEvaluation
    """The class with the data that the roles share. Other kinds of kernel have their own."""
    device_evaluation = DeviceEvaluation
    language = CUDA
    """The name of a kernel's source file, by which machine code refers to source lines."""

    def __init__(
        self,
        workload: Workload,
        compared: Workload,
        sizes: Mapping[str, int],
        start: str,
        problem: Problem,
        settings: EvaluationSettings,
        architecture: Architecture,
        baselines: Mapping[str, str],
        full_problem: Problem,
        full_sizes: Mapping[str, int],
        gpu: Gpu | None,
        templates: Mapping[str, str] | None = None,
        published: Callable[[], Sequence[AttackResult]] = list,
        lowest: str = "",
        tunable: TunableWorkload | None = None,
    ) -> None:
        self.workload = workload
        self.tunable = tunable
        """What the tuner calls this workload, if it can tune the workload on this GPU."""
        self.start = start
        self.baselines = baselines
        self._full = full_problem, full_sizes
        self._gpu = gpu
        self._templates = templates or {}
        self._published = published
        self._evaluation = self.evaluation(
            workload,
            compared,
            sizes,
            problem,
            settings,
            architecture,
            lowest,
            full_sizes,
            start=start,
        )

    rules = staticmethod(refused)
    """The rules for a kernel's text."""

    @property
    def fingerprint(self) -> str:
        """Content hash of everything that affects a verdict, except the workload and the
        versions."""
        evaluation = self._evaluation
        return content_id(
            evaluation.problem.fingerprint,
            inputs.VERSION,
            str(evaluation.settings.input_seed),
            str(evaluation.settings.checks),
            evaluation.architecture.name,
            repr(sorted(evaluation.sizes.items())),
            evaluation.lowest,
        )

    @property
    def untimed(self) -> str | None:
        """Why kernels are not timed: there is no GPU, or one of another architecture. None if they
        are timed."""
        if self._gpu is None:
            return NO_GPU
        return other_gpu(self._gpu, self._evaluation.architecture)

    def templates(self) -> Mapping[str, str]:
        """Kernels with free parameters that come with tilewright for the workload."""
        return self._templates

    def check_cases(self) -> Sequence[CheckCase]:
        """The comparisons of a candidate's checks."""
        cases, checks = self._evaluation.cases, self._evaluation.settings.checks
        return [OpenCase(cases[number]) for number in cases.compared(checks)]

    def omissions(self) -> Mapping[str, str]:
        """Input distributions that are not compared, with the reasons."""
        return self._evaluation.cases.omissions

    def published_rules(self) -> Sequence[AttackResult]:
        """The verdict of KernelBench's rule on kernels that do not compute the product, at the full
        depth."""
        return self._published()

    def hostile_kernels(self) -> Mapping[str, str]:
        """Kernels that are wrong for any task."""
        return hostile_kernels(self._evaluation.compared.arguments)

    @cached_property
    def evaluator(self) -> tuple[Builder, Checker, Runner]:
        """The builder, checker and runner for a GPU, or for this CPU if no GPU can be used."""
        shared = self._evaluation
        if self.untimed is not None:
            builder = CudaBuilder(shared, self.rules)
            return builder, CudaChecker(shared), CudaRunner(shared, self.untimed)
        device = self.device
        checker = DeviceChecker(device, self.on_the_cpu())
        roles = DeviceBuilder(device, self.rules), checker, DeviceRunner(device)
        with_torch = bool(WAYS.keys() & self.baselines.keys())
        if not with_torch and self.tunable is None:
            return roles
        torch = find_torch() if with_torch else None
        beside = WithBaselines(roles, device, self.baselines, torch)
        return beside, beside, beside

    def tuned_baseline(self, kernel: TunedKernel) -> str:
        """The text of the baseline for a kernel of the tuner."""
        return text_of(kernel)

    def code(self, source: str) -> CompiledCode | Failed:
        """The machine code of a kernel for the architecture of this task."""
        from tilewright.targets.cuda.code import compiled_code

        built = self.evaluator[0].build(Candidate(source))
        if isinstance(built, Failed):
            return built
        compiled = self._evaluation.compiled(built.source)
        if isinstance(compiled, Failed):
            return compiled
        return compiled_code(
            compiled.cubins, self._evaluation.architecture.name, self.language.file
        )

    def on_the_cpu(self) -> Checker:
        """The evaluation on the CPU of kernels that a GPU has accepted."""
        return CudaChecker(self._evaluation)

    @cached_property
    def device(self) -> DeviceEvaluation:
        """The evaluation on the GPU, if one can be used."""
        shared, (problem, sizes) = self._evaluation, self._full
        assert self._gpu is not None
        return self.device_evaluation(
            self.workload,
            sizes,
            problem,
            shared.settings,
            shared.architecture,
            self.start,
            self._gpu,
            DeviceCompiler(shared.nvcc, shared.architecture.name),
            shared.lowest,
        )
