"""How a schedule template nests the levels of tiles, and which of them a search may change."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tilewright.tuner.candidates import Candidates, Integers
from tilewright.tuner.workload import TensorWorkload


@dataclass(frozen=True)
class Knob:
    """A choice in addition to the tiles, such as the unrolling limit. A hop moves to an adjacent
    choice."""

    name: str
    choices: tuple[int, ...]


@dataclass(frozen=True)
class Structure:
    """A multi-level tiling: bands of spatial (S) and reduction (R) loops, outermost first.

    `frozen` are spatial levels that stay 1. `max_innermost` bounds the innermost level of every
    loop. `knobs` are the template's further choices.
    """

    bands: str
    max_innermost: int = 64
    frozen: frozenset[int] = frozenset()
    knobs: tuple[Knob, ...] = field(default=())

    @property
    def spatial_levels(self) -> int:
        """Number of tile levels of a spatial loop."""
        return self.bands.count("S")

    @property
    def reduction_levels(self) -> int:
        """Number of tile levels of a reduction loop."""
        return self.bands.count("R")

    def knob(self, name: str) -> int:
        """Position of the knob with this name; `KeyError` if the structure has none."""
        for position, knob in enumerate(self.knobs):
            if knob.name == name:
                return position
        raise KeyError(name)

    def values(self, candidates: Candidates, name: str) -> Integers:
        """The value that each candidate chose for the knob with this name, (n,); `KeyError` as in
        `knob`."""
        position = self.knob(name)
        choices = np.array(self.knobs[position].choices, dtype=np.int64)
        return np.asarray(choices[candidates.knobs[:, position]])


VTHREAD_LEVEL = 1
THREAD_LEVEL = 2


def gpu_structure(workload: TensorWorkload, *, restricted: bool = False) -> Structure:
    """SSSRRSRS: block, virtual thread and thread, and two reduction bands around the register tile.

    Knobs: how many elements each thread copies at once for every input (`fetch_NAME`), the limit
    of explicit unrolling (`unroll`), and how many versions of the shared tiles are in flight
    (`stages`; more than one copies asynchronously, on devices that can). `restricted` is the space
    of the published system: no virtual threads, no stages, unrolling up to 512.
    """
    fetch = tuple(Knob(f"fetch_{access.buffer}", (1, 2, 3, 4)) for access in workload.inputs)
    unroll = Knob("unroll", (512,) if restricted else (0, 16, 32, 64, 128, 256, 512, 1024))
    stages = Knob("stages", (1,) if restricted else (1, 3, 4))
    return Structure(
        "SSSRRSRS",
        frozen=frozenset({VTHREAD_LEVEL}) if restricted else frozenset(),
        knobs=(*fetch, unroll, stages),
    )


def cpu_structure(workload: TensorWorkload, *, restricted: bool = False) -> Structure:
    """SSRSRS: parallel band, cache tile, reduction, register tile, inner reduction, vectors.

    Knobs: the unroll limit (`unroll`); after how many spatial bands the output's write cache is
    flushed (`write_cache`; 0 is not a write cache); and, where an input is padded, the loop band at
    which the padded tile is computed (`pad_band`: -2 inlined, -1 before the nest, b inside band b).
    With `restricted`, the unroll limit is always 64.
    """
    knobs = [
        Knob("unroll", (64,) if restricted else (0, 16, 64, 512)),
        Knob("write_cache", (0, 1, 2)),
    ]
    if workload.padded:
        knobs.append(Knob("pad_band", (-2, -1, 0, 1, 2)))
    return Structure("SSRSRS", knobs=tuple(knobs))
