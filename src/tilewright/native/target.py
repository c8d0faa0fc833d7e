"""The part of targets that all native targets share, which opens workloads and folders as tasks."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import Workload
from tilewright.core.roles import Task
from tilewright.native.evaluator import NativeEvaluation
from tilewright.native.machine import processor
from tilewright.native.process import MAX_ARGUMENTS
from tilewright.native.settings import EvaluationSettings
from tilewright.native.shared_memory import MAX_ARRAY_BYTES
from tilewright.native.task import NativeTask
from tilewright.native.toolchain import Toolchain, find_toolchain
from tilewright.parts.cases import Cases
from tilewright.parts.folder import read_folder
from tilewright.parts.languages import C
from tilewright.parts.problem import Problem


def require_linux(target: str) -> None:
    """Raise `ToolchainMissingError` on systems on which only resource limits would restrict a
    native kernel.
    """
    if sys.platform != "linux":
        raise ToolchainMissingError(
            f"target {target} runs other people's kernels natively, and outside Linux only limits "
            "on time and memory would contain them. Run tilewright in a Linux container "
            "(docs/install.md)."
        )


class NativeTarget(ABC):
    """The part of the `Target` role that does not depend on the kind of kernels.

    `threads` is the number of threads of a kernel, each on its own core.
    """

    name: str
    threads: int = 1

    def open_folder(self, folder: Path, settings: Mapping[str, object]) -> Task:
        """The task of a kernel folder, whose reference runs only in the evaluating process."""
        workload, start, problem = read_folder(
            folder,
            self.name,
            C,
            max_arguments=MAX_ARGUMENTS,
            max_bytes=MAX_ARRAY_BYTES,
            memory="what is mapped for a kernel",
        )
        return self._task(workload, start, problem, settings, {})

    @property
    def resource(self) -> str:
        """The model of the processor, because latencies of different models are not comparable."""
        return f"{self.name}:{processor().name}"

    @property
    def model_versions(self) -> frozenset[str]:
        """The processor; a kernel is compiled for the one on which it runs."""
        return frozenset({"machine"})

    def versions(self) -> Mapping[str, str]:
        """The compiler, its flags, the processor and the number of threads."""
        toolchain = find_toolchain(self.threads)
        return {
            "compiler": toolchain.id,
            "build": toolchain.build,
            "machine": processor().name,
            "threads": str(self.threads),
        }

    def _task(
        self,
        workload: Workload,
        start: str,
        problem: Problem,
        settings: Mapping[str, object],
        baselines: Mapping[str, str],
    ) -> NativeTask:
        require_linux(self.name)
        task = NativeTask(
            workload,
            start,
            problem,
            EvaluationSettings.from_mapping(settings),
            self._evaluation,
            self._floor,
            baselines,
            self.threads,
        )
        task.untimed = self._untimed
        return task

    @property
    def _untimed(self) -> str | None:
        """Why kernels can only be checked on this machine; None if they can be timed."""
        return None

    @cached_property
    def _toolchain(self) -> Toolchain:
        return find_toolchain(self.threads)

    @abstractmethod
    def _evaluation(
        self, cases: Cases, start: str, settings: EvaluationSettings
    ) -> NativeEvaluation:
        """How candidates of a workload are evaluated."""

    @abstractmethod
    def _floor(self, workload: Workload) -> tuple[float, str]:
        """Nanoseconds that no correct kernel can beat, and the bound in words."""
