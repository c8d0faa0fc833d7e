"""Converts points of a tile space to TVM schedules, and TVM's traces to points."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from tilewright.core.errors import InternalError, WorkloadError
from tilewright.tuner.candidates import Candidates
from tilewright.tuner.structure import Structure
from tilewright.tuner.tvm.analysis import REMEDY, Anatomy

_TILE, _CHOICE, _COMPUTE_LOCATION = (
    "SamplePerfectTile",
    "SampleCategorical",
    "SampleComputeLocation",
)
_ROOT = -1
_PIPELINE = "software_pipeline_stage"


class Template:
    """The design spaces of one function: traces whose sampled decisions are set by a point.

    There is one space for each depth at which the output's write cache (or the element-wise stage
    after it) is flushed, chosen by the knob `write_cache`. There is also one for each number of
    versions of a shared tile in flight, chosen by `stages`. All other knobs are
    categorical decisions or the loop at which a padded input is computed.
    """

    def __init__(self, context: Any, anatomy: Anatomy, structure: Structure) -> None:
        """`context` must generate its spaces with `rules.template(target, structure)`."""
        self.context = context
        self.anatomy = anatomy
        self.structure = structure
        self._postprocs = list(context.space_generator.postprocs)
        spaces = [_Space(schedule.trace, anatomy) for schedule in context.generate_design_space()]
        self._spaces = {(sp.flush, sp.stages): sp for sp in reversed(spaces) if sp.tiles}
        if not self._spaces:
            raise WorkloadError(
                f"{anatomy.workload.name} cannot be tiled by the template rules: {REMEDY}."
            )
        self._levels = [
            [lv for lv in range(structure.spatial_levels) if lv not in structure.frozen]
            if loop < anatomy.workload.spatial
            else list(range(structure.reduction_levels))
            for loop in range(len(anatomy.workload.loops))
        ]

    @property
    def flush_levels(self) -> list[int]:
        """The bands after which the output can be flushed, which are the choices of the spaces."""
        return sorted({flush for flush, _ in self._spaces})

    def schedule(self, point: Candidates) -> Any | None:
        """The schedule of the single candidate in `point`; None if TVM rejects it."""
        from tvm.s_tir import Schedule, Trace

        space = self._spaces.get((self._flush(point), self._value(point, "stages") or 1))
        if space is None:
            return None
        decisions = self._decisions(space, point)
        schedule = Schedule(self.context.mod, seed=1, error_render_level="none")
        try:
            Trace(space.instructions, decisions).apply_to_schedule(schedule, remove_postproc=True)
            schedule.enter_postproc()
            accepted = all(postproc.apply(schedule) for postproc in self._postprocs)
        except Exception:  # TVM raises errors of several Python types
            return None
        return schedule if accepted else None

    def points(self, traces: list[Any]) -> Candidates:
        """The points (n, ...) of traces in this template's spaces."""
        workload = self.anatomy.workload
        tiles = np.ones(
            (len(traces), len(workload.loops), self.structure.spatial_levels), dtype=np.int64
        )
        knobs = np.zeros((len(traces), len(self.structure.knobs)), dtype=np.int64)
        for row, trace in enumerate(traces):
            space = _Space(trace, self.anatomy)
            for loop, instruction in enumerate(space.tiles):
                decision = [int(part) for part in trace.get_decision(instruction)]
                tiles[row, loop, self._levels[loop]] = decision
            knobs[row] = self._read_knobs(space, trace)
        return Candidates(tiles, knobs)

    def _flush(self, point: Candidates) -> int:
        """The band after which the output is flushed; the nearest that the spaces offer."""
        wanted = self._value(point, "write_cache")
        if wanted is None:
            return self.flush_levels[0]
        return wanted if wanted in self.flush_levels else self.flush_levels[-1]

    def _value(self, point: Candidates, name: str) -> int | None:
        try:
            knob = self.structure.knob(name)
        except KeyError:
            return None
        return self.structure.knobs[knob].choices[int(point.knobs[0, knob])]

    def _decisions(self, space: _Space, point: Candidates) -> dict[Any, Any]:
        decisions: dict[Any, Any] = {}
        for loop, instruction in enumerate(space.tiles):
            decisions[instruction] = [int(v) for v in point.tiles[0, loop, self._levels[loop]]]
        for name, instruction in zip(self._choice_knobs(), space.choices, strict=True):
            decisions[instruction] = int(point.knobs[0, self.structure.knob(name)])
        band = self._value(point, "pad_band")
        for instruction in space.places:
            decisions[instruction] = self._place(_ROOT if band is None else band)
        return decisions

    def _choice_knobs(self) -> list[str]:
        """Knobs that are categorical decisions, in the order in which the rules sample them."""
        names = [knob.name for knob in self.structure.knobs]
        return [n for n in names if n.startswith("fetch_")] + [n for n in names if n == "unroll"]

    def _place(self, band: int) -> int:
        """The loop inside which a stage is computed, by its position in the tiled nest."""
        return band if band < 0 else self._band_ends()[band] - 1

    def _band_ends(self) -> list[int]:
        """The number of loops down to the end of each band."""
        workload = self.anatomy.workload
        counts = {"S": workload.spatial, "R": len(workload.loops) - workload.spatial}
        return list(accumulate(counts[band] for band in self.structure.bands))

    def _read_knobs(self, space: _Space, trace: Any) -> list[int]:
        values: dict[str, int] = {}
        for name, instruction in zip(self._choice_knobs(), space.choices, strict=False):
            values[name] = int(trace.get_decision(instruction))
        for knob in self.structure.knobs:
            if knob.name == "write_cache" and space.flush in knob.choices:
                values[knob.name] = knob.choices.index(space.flush)
            elif knob.name == "stages" and space.stages in knob.choices:
                values[knob.name] = knob.choices.index(space.stages)
            elif knob.name == "pad_band" and space.places:
                place = int(trace.get_decision(space.places[0]))
                band = place if place < 0 else int(np.searchsorted(self._band_ends(), place + 1))
                values[knob.name] = knob.choices.index(min(band, max(knob.choices)))
        return [values.get(knob.name, 0) for knob in self.structure.knobs]


class _Space:
    """The sampling instructions of a trace, sorted by what they decide."""

    def __init__(self, trace: Any, anatomy: Anatomy) -> None:
        simplified = trace.simplified(remove_postproc=True)
        self.instructions = list(simplified.insts)
        sampled = [i for i in self.instructions if i.kind.name == _TILE]
        if len(sampled) not in (0, len(anatomy.loops)):
            raise InternalError("a design space tiles other loops than the analysis found.")
        self.tiles = [sampled[position] for position in anatomy.loops] if sampled else []
        self.choices = [i for i in self.instructions if i.kind.name == _CHOICE]
        self.places = [i for i in self.instructions if i.kind.name == _COMPUTE_LOCATION]
        self.flush = self._flush_band(anatomy)
        self.stages = self._stages()

    def _flush_band(self, anatomy: Anatomy) -> int:
        """Number of bands of spatial loops around the flush of the output; 0 without a write
        cache."""
        nest: list[Any] = []
        for instruction in self.instructions:
            if instruction.kind.name == "Reorder":
                nest = list(instruction.inputs)
            elif instruction.kind.name == "ReverseComputeAt" and nest:
                loop = instruction.inputs[1]
                inside = [n for n, other in enumerate(nest) if other.same_as(loop)]
                return (inside[0] + 1) // anatomy.workload.spatial if inside else 0
        return 0

    def _stages(self) -> int:
        """Number of versions of each shared tile that a software pipeline keeps in flight; 1
        without a pipeline."""
        for instruction in self.instructions:
            if instruction.kind.name == "Annotate" and instruction.attrs[0] == _PIPELINE:
                return int(max(instruction.inputs[1])) + 1
        return 1
