"""`AmxTarget`, which opens workloads and folders as tasks and reports what is installed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import Failed, FolderTemplate, TargetBrief, Workload, content_id
from tilewright.core.roles import Task
from tilewright.native.calibration import calibrated, peaks
from tilewright.native.evaluator import CountingBuild, Counts, NativeEvaluation
from tilewright.native.machine import Processor, processor
from tilewright.native.settings import LATENCY, EvaluationSettings
from tilewright.native.target import NativeTarget, require_linux
from tilewright.parts.brief_files import (
    load_commands,
    load_examples,
    load_menu,
    load_template,
    render,
)
from tilewright.parts.cases import Cases
from tilewright.parts.languages import C
from tilewright.parts.source_rules import check_source
from tilewright.targets.amx.elements import INT8, TILE_BYTES, TILE_ROWS, Element
from tilewright.targets.amx.naive import naive_kernel
from tilewright.targets.amx.performance import (
    LOADED,
    certain_operations,
    described,
    loads_in_words,
)
from tilewright.targets.amx.problems import create_problem
from tilewright.targets.amx.shapes import PATTERNS, REGISTERED, parse_shape, workload_of
from tilewright.targets.amx.support import refusal

FOLDER = Path(__file__).parent
HEADER = "tiles.h"
HEADERS = (HEADER, "immintrin.h", "stdint.h", "string.h")
_OWN_MACROS = re.compile(r"\btile_(move|product|name)\w*")
"""The names in tiles.h that pass text to the assembler."""
_UNDERESTIMATE = 1.5
"""Maximum ratio of a clock to that of the calibration, by which lower bounds are divided."""


class AmxTarget(NativeTarget):
    """Tile kernels of one element type, on one core."""

    def __init__(self, element: Element) -> None:
        self.name = element.target
        self._element = element

    @cached_property
    def _brief(self) -> TargetBrief:
        known = words(self._element)
        return TargetBrief(
            name=self.name,
            isa=render(FOLDER / "isa.md", known),
            rules=render(FOLDER / "rules.md", known),
            menu=load_menu(FOLDER / "menu.toml", known),
            commands=load_commands(FOLDER / "commands.toml", known),
            limits=limits(processor()),
            constants={},
            language=C,
            latency=LATENCY,
            examples=load_examples(FOLDER / "examples", known),
            costs=render(FOLDER / "costs.md", known).strip(),
            plan_hints=render(FOLDER / "plan_hints.md", known).strip(),
        )

    def brief(self) -> TargetBrief:
        """The brief: the tiles, the rules, the menu, the effects of instructions and the limits."""
        return self._brief

    def template(self) -> FolderTemplate:
        """The files that `tilewright init` writes, which describe a matrix product."""
        return load_template(FOLDER / "template.toml", words(self._element))

    def workloads(self) -> Mapping[str, str]:
        """Patterns and registered names."""
        return {**PATTERNS, **REGISTERED}

    def open(self, spec: str, settings: Mapping[str, object]) -> Task:
        """The task of the workload `spec`, with its naive starting kernel."""
        shape = parse_shape(spec, self._element)
        start = naive_kernel(shape, self._element)
        problem = create_problem(shape, self._element)
        return self._task(
            workload_of(shape, self._element), start, problem, settings, {"naive": start}
        )

    def versions(self) -> Mapping[str, str]:
        """The compiler, its flags, the processor, and whether tiles are emulated."""
        text = content_id((FOLDER / HEADER).read_text(encoding="utf-8"))[:8]
        tiles = f"emulated {text}" if refusal(self._element) else "hardware"
        return {**super().versions(), "tiles": tiles}

    def doctor(self) -> Sequence[tuple[str, bool | None, str]]:
        """Whether this CPU has tiles, and their peak rate."""
        lacking = refusal(self._element)
        if lacking is not None:
            return [("tiles", None, lacking)]
        try:
            require_linux(self.name)
            rate = self._peak(fresh=True)
        except ToolchainMissingError as error:
            return [("tiles", False, str(error))]
        return [("tiles", True, f"{processor().name}: {2e-12 * rate:.2f} TOPS (one core)")]

    @property
    def _untimed(self) -> str | None:
        lacking = refusal(self._element)
        return None if lacking is None else lacking.rstrip(".")

    def _evaluation(
        self, cases: Cases, start: str, settings: EvaluationSettings
    ) -> NativeEvaluation:
        lacking = refusal(self._element)
        return NativeEvaluation(
            cases=cases,
            settings=settings,
            start=start,
            toolchain=self._toolchain,
            check_source=refused,
            describe=self._describe,
            versions={"machine": processor().name},
            headers={HEADER: header("emulated" if lacking else "hardware")},
            harness_flags=("-DTILES",) if lacking is None else (),
            peak_per_s=None if lacking else self._peak(),
            refuse_timing=lacking,
            shown_headers={HEADER: header("hardware")},
            counting_build=CountingBuild(
                {HEADER: header("counted")}, "tile_counts", (LOADED,), loads_in_words
            ),
        )

    def _peak(self, *, fresh: bool = False) -> float:
        """Multiply-adds per second of one core's tiles."""
        source = (FOLDER / "calibrate.c").read_text()
        source = source.replace('#include "tiles.h"', header("hardware"))
        source = source.replace("PRODUCT", self._element.product)
        source = source.replace("DEPTH", str(self._element.depth))
        return calibrated(self._toolchain, source, (), ("products_per_s",), fresh=fresh)[
            "products_per_s"
        ]

    def _floor(self, workload: Workload) -> tuple[float, str]:
        """A lower bound on the latency. Exact int8 products cannot be replaced by sums of operands,
        but bfloat16 products may be.
        """
        if self._element is not INT8:
            return 0.0, "nothing"
        operations = certain_operations(workload, self._element)
        return operations / self._peak() / _UNDERESTIMATE * 1e9, "the tile multiplier"

    def _describe(
        self, workload: Workload, latency_s: float, counts: Counts
    ) -> tuple[float, Mapping[str, float], str]:
        return described(workload, latency_s, self._peak(), peaks(self._toolchain), counts)


def limits(core: Processor) -> dict[str, int]:
    """The tiles, and for each cache of a core its size in bytes, and the cycles to fetch a line
    from beyond it. If the system does not report the sizes, those of the first CPUs with tiles are
    used.
    """
    return {
        "registers": 8,
        "register_rows": TILE_ROWS,
        "register_row_bytes": TILE_BYTES,
        "l1_bytes": core.l1_bytes or 48 << 10,
        "l1_miss_cycles": 1,
        "l2_bytes": core.l2_bytes or 2 << 20,
        "l2_miss_cycles": 6,
    }


def header(tiles: Literal["hardware", "emulated", "counted"]) -> str:
    """The text of `tiles.h`, with the hardware's instructions, emulated ones, or counters."""
    text = (FOLDER / HEADER).read_text(encoding="utf-8")
    return text if tiles == "emulated" else f"#define TILES_{tiles.upper()}\n{text}"


def refused(source: str) -> Failed | None:
    """The rule that a source violates, or None."""
    joined = re.sub(r"\\[ \t\f\v]*\r?\n", "", source)
    own = _OWN_MACROS.search(joined)
    if own is not None:
        line = joined.count("\n", 0, own.start()) + 1
        log = f"kernel.c:{line}: {own.group()} is not for kernels. Use the intrinsics of tiles.h."
        return Failed("build", "compile_error", log, line)
    return check_source(source, C, HEADERS, "use the intrinsics of tiles.h and immintrin.h")


def words(element: Element) -> Mapping[str, object]:
    """The values that the text files of this folder may contain."""
    core = processor()
    return {
        "element": "int8" if element is INT8 else "bfloat16",
        "exact": element is INT8,
        "group": element.group,
        "depth": element.depth,
        "product": element.product,
        "sum_c": element.sum_c,
        "l1_kib": core.l1_bytes >> 10,
        "l2_kib": core.l2_bytes >> 10,
        "l3_kib": core.l3_bytes >> 10,
    }
