"""`HostTarget`, which opens workloads and folders as tasks and reports what is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import Failed, FolderTemplate, TargetBrief, Workload
from tilewright.core.roles import Task
from tilewright.native.allowed_calls import MATHEMATICS
from tilewright.native.calibration import Peaks, peaks
from tilewright.native.counters import availability
from tilewright.native.evaluator import Counts, NativeEvaluation
from tilewright.native.instruction_rates import instruction_rates
from tilewright.native.machine import Processor, measuring_cores, processor
from tilewright.native.settings import LATENCY, EvaluationSettings
from tilewright.native.target import NativeTarget, require_linux
from tilewright.native.toolchain import HOW_TO_GET
from tilewright.parts.brief_files import load_examples, load_menu, load_template, render
from tilewright.parts.cases import Cases
from tilewright.parts.languages import C
from tilewright.parts.source_rules import check_source
from tilewright.targets.host_c.instance import ONE_THREAD, Instance, load_instance
from tilewright.targets.host_c.naive import naive_kernel
from tilewright.targets.host_c.performance import (
    describe,
    floor_ns,
    in_words,
    products_per_s,
)
from tilewright.targets.host_c.problems import create_problem
from tilewright.targets.host_c.shapes import PATTERNS, REGISTERED, fewer_products, parse_shape

FOLDER = Path(__file__).parent
HEADERS = (
    "math.h", "stdint.h", "stddef.h", "stdbool.h", "float.h", "limits.h", "string.h", "stdlib.h",
    "stdarg.h", "stdalign.h", "stdio.h", "inttypes.h", "tgmath.h", "assert.h",
    "immintrin.h", "x86intrin.h", "emmintrin.h", "xmmintrin.h", "smmintrin.h", "tmmintrin.h",
)  # fmt: skip
"""The headers that a kernel may include, none of which gives access to anything outside its
process. Functions that they declare are refused when the kernel is linked, unless it may call them.
"""
PRAGMAS = ("GCC ivdep", "omp simd", "scop", "endscop")
"""Hints to the compiler, and the marks of PolyBench, which compilers ignore."""
THREAD_HEADERS = ("pthread.h", "stdatomic.h", "omp.h")
THREAD_PRAGMAS = ("omp ...",)
"""Further pragmas that are allowed if several threads are declared."""


class HostTarget(NativeTarget):
    """C kernels on cores of this machine, with one thread per core. Vector extensions are
    allowed.
    """

    def __init__(self, instance: Instance = ONE_THREAD) -> None:
        self.name = instance.name
        self.threads = instance.threads

    def configured(self, file: Path) -> HostTarget:
        """The instance with the threads that a user's file declares."""
        target = HostTarget(load_instance(file))
        measuring_cores(target.threads)
        return target

    @cached_property
    def _brief(self) -> TargetBrief:
        try:
            compiler, openmp = self._toolchain.id, self._toolchain.openmp
        except ToolchainMissingError:
            compiler, openmp = "the system compiler", False
        known = words(processor(), self.threads, openmp=openmp, compiler=compiler)
        return TargetBrief(
            name=self.name,
            isa=render(FOLDER / "isa.md", known),
            rules=render(FOLDER / "rules.md", known),
            menu=load_menu(FOLDER / "menu.toml", known),
            commands=(),
            limits=limits(processor(), self.threads),
            constants={},
            language=C,
            latency=LATENCY,
            examples=load_examples(FOLDER / "examples", known),
            costs=render(FOLDER / "costs.md", known).strip(),
            plan_hints=render(FOLDER / "plan_hints.md", known).strip(),
        )

    def brief(self) -> TargetBrief:
        """The brief: the cores, the rules, the menu and the limits."""
        return self._brief

    def template(self) -> FolderTemplate:
        """The files that `tilewright init` writes, which describe a matrix product."""
        return load_template(FOLDER / "template.toml", {})

    def workloads(self) -> Mapping[str, str]:
        """Patterns and registered names."""
        patterns = {f"{kind}-{sizes}": text for kind, (sizes, text) in PATTERNS.items()}
        return {**patterns, **REGISTERED}

    def open(self, spec: str, settings: Mapping[str, object]) -> Task:
        """The task of the workload `spec`, with its naive starting kernel."""
        shape = parse_shape(spec)
        start = naive_kernel(shape)
        return self._task(
            shape.workload(self.name), start, create_problem(shape), settings, {"naive": start}
        )

    def doctor(self) -> Sequence[tuple[str, bool | None, str]]:
        """The state of the compiler, and the peak rates of the machine, which are measured in this
        call.
        """
        try:
            require_linux(self.name)
            toolchain = self._toolchain
            found = peaks(toolchain, self.threads, fresh=True)
        except ToolchainMissingError as error:
            return [("C compiler", False, str(error) or HOW_TO_GET)]
        lacking = availability()
        return [
            ("C compiler", True, toolchain.id),
            ("hardware counters", None if lacking else True, lacking or "readable"),
            ("calibration", True, f"{processor().name}: {peaks_in_words(found, self.threads)}"),
        ]

    @cached_property
    def _peaks(self) -> Peaks:
        return peaks(self._toolchain, self.threads)

    def _floor(self, workload: Workload) -> tuple[float, str]:
        return floor_ns(workload, self._peaks)

    def _evaluation(
        self, cases: Cases, start: str, settings: EvaluationSettings
    ) -> NativeEvaluation:
        found, rates = self._peaks, instruction_rates(self._toolchain)

        def described(
            task: Workload, latency_s: float, _: Counts
        ) -> tuple[float, Mapping[str, float], str]:
            share, numbers, told = describe(task, latency_s, found, self.threads)
            return share, numbers, "\n".join([told, *([f"{rates.in_words()}."] if rates else [])])

        return NativeEvaluation(
            cases=cases,
            settings=settings,
            start=start,
            toolchain=self._toolchain,
            check_source=lambda source: refused(source, self.threads),
            describe=described,
            versions={"machine": processor().name},
            peak_per_s=products_per_s(cases.workload, found),
            rates=rates,
            shortcut=fewer_products(cases.workload),
        )


def refused(source: str, threads: int) -> Failed | None:
    """The rule that a source violates, or None."""
    advice = "use GCC's vector extensions and built-in functions"
    several = threads > 1
    headers, pragmas = HEADERS + THREAD_HEADERS * several, PRAGMAS + THREAD_PRAGMAS * several
    return check_source(source, C, headers, advice, pragmas)


def limits(core: Processor, threads: int) -> dict[str, int]:
    """Limits of each core, which proposers use for plans."""
    return {
        "vector_bytes": core.vector_bytes,
        "vector_registers": core.vector_registers,
        "l1_bytes": core.l1_bytes,
        "l2_bytes": core.l2_bytes,
        "l3_bytes": core.l3_bytes,
        "threads": threads,
    }


def words(core: Processor, threads: int, *, openmp: bool, compiler: str) -> Mapping[str, object]:
    """The values that the text files of this folder may contain."""
    told = sorted(f for f in core.features if f.startswith(("avx512", "avx_vnni")))
    known = limits(core, threads)
    return {
        **known,
        "openmp": openmp,
        "compiler": compiler,
        "mathematics": f"{', '.join(MATHEMATICS[:-1])} and {MATHEMATICS[-1]}",
        "processor": ", ".join(filter(None, (core.name, core.generation))),
        "instructions": ", ".join(told).upper(),
        "vnni": "avx512_vnni" in core.features,
        "by_ones": "avx2" in core.features and compiler.startswith("gcc"),
        "lanes": known["vector_bytes"] // 4,
        "l1_kib": core.l1_bytes >> 10,
        "l2_kib": core.l2_bytes >> 10,
        "l3_kib": core.l3_bytes >> 10,
    }


def peaks_in_words(found: Peaks, threads: int) -> str:
    """The peak rates as one line of text."""
    return (
        f"{2e-9 * found.products_per_s:.0f} GFLOP/s, first-level cache "
        f"{1e-9 * found.l1_read_bytes_per_s:.0f} GB/s read, "
        f"{1e-9 * found.l1_write_bytes_per_s:.0f} GB/s written, second-level "
        f"{1e-9 * found.l2_read_bytes_per_s:.0f} GB/s, third-level "
        f"{1e-9 * found.l3_read_bytes_per_s:.0f} GB/s, memory "
        f"{1e-9 * found.memory_read_bytes_per_s:.0f} GB/s ({in_words(threads)})"
    )
