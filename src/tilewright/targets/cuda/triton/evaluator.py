"""Parts that building, checking and timing Triton kernels share: launches, and how they run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.core.records import Failed, KernelLanguage
from tilewright.parts.languages import PYTHON
from tilewright.parts.untested_conditions import Untested
from tilewright.targets.cuda.cpu_program import not_checked
from tilewright.targets.cuda.device.build import LOADING
from tilewright.targets.cuda.device.evaluator import DeviceEvaluation
from tilewright.targets.cuda.device.remedies import TRITON, Remedies
from tilewright.targets.cuda.emulation import Run, RunResult
from tilewright.targets.cuda.evaluation import MOST_OPERATIONS, CudaEvaluation
from tilewright.targets.cuda.launcher import call
from tilewright.targets.cuda.nvcc import Compiled, Nvcc, Resources, read_resources
from tilewright.targets.cuda.occupancy import Architecture
from tilewright.targets.cuda.triton.host_code import host_code
from tilewright.targets.cuda.triton.process import interpret, record
from tilewright.targets.cuda.triton.recorded import Recorded

_SLOWER = 3.0
"""Factor by which compiling or interpreting a Triton kernel may take longer than a C++ kernel."""


@dataclass(frozen=True)
class Assembled:
    """The launches of a launcher, with the machine code and the resources of each function."""

    recorded: Recorded
    machine_codes: tuple[bytes, ...]
    functions: tuple[Resources, ...]


def assembled(
    source: str, evaluation: CudaEvaluation | DeviceEvaluation, sizes: Sequence[int], nvcc: Nvcc,
    timeout_s: float,
) -> Assembled | Failed:  # fmt: skip
    """A kernel at full size: Triton writes PTX in a sandbox, and nvcc's assembler translates it."""
    architecture: Architecture = evaluation.architecture
    recorded = record(
        source, evaluation.workload.arguments, sizes, int(architecture.name.removeprefix("sm_")),
        ptx_version(nvcc), architecture.block_shared_kib << 10, timeout_s * _SLOWER,
    )  # fmt: skip
    if isinstance(recorded, Failed):
        return recorded
    if not recorded.launches:
        return Failed("build", "compile_error", "kernel.py launches no kernel.")
    codes, functions = list[bytes](), list[Resources]()
    for text in recorded.codes:
        target = re.search(r"^\.target (sm_\w+)", text, re.MULTILINE)
        words = ["-cubin", f"-arch={target[1] if target else architecture.name}", "-lineinfo",
                 "-Xptxas", "-v", "program.ptx", "-o", "kernel.cubin"]  # fmt: skip
        made = nvcc.run({"program.ptx": text}, words, "kernel.cubin", timeout_s)
        if isinstance(made, Failed):
            return made
        codes.append(made[0])
        functions += read_resources(made[1])
    return Assembled(recorded, tuple(codes), tuple(functions))


def ptx_version(nvcc: Nvcc) -> int:
    """The newest PTX version that a toolkit's assembler accepts: 9.0 for 13.0, 8.4 for 12.4, 8.7
    for 12.8."""
    found = re.search(r"(\d+)\.(\d+)", nvcc.id)
    major, minor = (int(found[1]), int(found[2])) if found else (13, 0)
    if major >= 13:
        return 90 + 10 * (major - 13) + minor
    return 80 + minor - (minor >= 6)


class TritonEvaluation(CudaEvaluation):
    """Evaluates Triton kernels like CUDA C++. They are compiled at full size and interpreted at the
    reduced size."""

    @property
    def language(self) -> KernelLanguage:
        """The language of kernels, in which messages name lines."""
        return PYTHON

    def compiled(self, source: str) -> Compiled | Failed:
        """The machine code of a kernel. The code of the last kernel is kept."""
        if source not in self._compiled:
            self._compiled.clear()
            sizes = tuple(self.full_sizes.values())
            found = assembled(source, self, sizes, self.nvcc, self._compile_s)
            if isinstance(found, Failed):
                self._compiled[source] = found
            else:
                self.launches[source] = found.recorded.launches
                self._compiled[source] = Compiled(found.machine_codes, found.functions)
        return self._compiled[source]

    def program(self, source: str) -> bytes | Failed:
        """The text itself, which is interpreted."""
        return source.encode()

    def ran(self, program: bytes, runs: Sequence[Run]) -> RunResult:
        """The results of runs in the interpreter, with the launches of the compiled kernel."""
        source = program.decode()
        launches = self.launches.get(source, ())
        found = interpret(
            source, self.compared.arguments, tuple(self.sizes.values()), runs,
            self.settings.simulation_timeout_s * _SLOWER,
        )  # fmt: skip
        self.remember(source, found.conditions)
        return RunResult(found.outputs, launches, found.failed)

    def must_record(self, source: str) -> bool:
        """Whether a condition had only one result so far. All runs record conditions."""
        return source not in self.conditions or bool(self.untested(source))

    def recorded(self, source: str, runs: Sequence[Run]) -> RunResult:
        """The results of further runs."""
        return self.ran(source.encode(), runs)

    def still_untested(self, source: str, runs: Sequence[Run]) -> tuple[Untested, ...]:
        """The untested conditions: the interpreter follows each value itself."""
        del runs
        return self.untested(source)

    def changed_by_moving(self, source: str, run: Run) -> tuple[Untested, ...]:
        """None: only the program that records the conditions of C++ kernels finds them."""
        del source, run
        return ()

    def without_effect(self, source: str, runs: Sequence[Run]) -> tuple[Untested, ...]:
        """None: only the program that records the conditions of C++ kernels finds them."""
        del source, runs
        return ()

    def watched(self, source: str, run: Run) -> None:
        """There is no other program: the interpreter has looked for races in every run."""
        return

    def refused_part(self) -> Failed | None:
        """Running only some of the programs of a Triton kernel is not supported."""
        return not_checked(
            f"one call takes {self.compared.operations:.2g} multiply-adds, but "
            f"the interpreter runs at most {MOST_OPERATIONS:.2g}: give smaller shapes"
        )

    def only_a_gpu(self, source: str) -> tuple[str, int] | None:
        """None, because only the interpreter can find such parts."""
        return None


class TritonDeviceEvaluation(DeviceEvaluation):
    """Evaluates on the GPU like CUDA C++: the program that is linked with a kernel launches its
    machine code."""

    @property
    def remedies(self) -> Remedies:
        """The options of Triton's menu against the causes that a measurement shows."""
        return TRITON

    def built(self, source: str) -> tuple[bytes, Compiled] | Failed:
        """A kernel's program and the resources of its functions. Those of the starting kernel and
        of the last one are kept."""
        if source not in self._built:
            for known in [s for s in self._built if s != self.start]:
                del self._built[known]
            self._built[source] = self._linked(source)
        return self._built[source]

    def _linked(self, source: str) -> tuple[bytes, Compiled] | Failed:
        timeout_s = self.settings.compile_timeout_s * 3  # nvcc starts a dozen programs
        sizes = tuple(self.sizes.values())
        found = assembled(source, self, sizes, self.compiler.nvcc, timeout_s)
        if isinstance(found, Failed):
            return found
        arguments = self.workload.arguments
        text = host_code(found.recorded, found.machine_codes, arguments, self.sizes)
        called = call(arguments, tuple(self.sizes))
        linked = self.compiler.build(text, called, timeout_s, LOADING)
        if isinstance(linked, Failed):
            return linked
        return linked[0], Compiled(linked[1].cubins, found.functions)
