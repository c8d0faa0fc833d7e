"""Features of a CPU candidate in the SSRSRS template: intensity, cache use, vectors, load
balance."""

from __future__ import annotations

import numpy as np

from tilewright.tuner.candidates import Candidates, Floats, Integers
from tilewright.tuner.device import CpuDevice
from tilewright.tuner.features.footprint import footprint
from tilewright.tuner.structure import Structure
from tilewright.tuner.workload import TensorWorkload

FEATURES = (
    "oi_register",
    "oi_l1",
    "oi_l2",
    "l1_fit",
    "l2_fit",
    "vector_efficiency",
    "loop_columns",
    "loop_efficiency",
    "ilp",
    "spill",
    "balance",
    "unroll",
    "write_cache",
    "register_rows",
    "register_columns",
    "inner_reduction",
    "pad_band",
)

# Number of independent chains that keep two fused multiply-add pipes with a latency of four cycles
# busy.
_CHAINS = 8


class CpuFeatures:
    """Features of SSRSRS candidates of one workload on one processor.

    The bands of loops, outermost first, are S0 (parallel) S1 R0 S2 R1 S3. The register tile is S3.
    The L1 tile contains the loops inside one iteration of R0 (S2 R1 S3), and the L2 tile those
    inside S1 (with all of R).
    """

    names: tuple[str, ...] = FEATURES

    def __init__(self, workload: TensorWorkload, structure: Structure, device: CpuDevice) -> None:
        self.workload = workload
        self.structure = structure
        self.device = device
        self._vector_loop = workload.vector_loop

    def __call__(self, candidates: Candidates) -> Floats:
        """Features of each candidate, (n, 17), in the order of `names`; ratios as log2.

        - OI at a level = multiply-accumulates of its tile / elements its tile moves: inputs, and
          the output twice if an outer reduction loop accesses it again
        - fit = bytes the tile touches / bytes of the cache
        - vector_efficiency = elements of the vector loop's register tile / lanes they occupy
        - loop_columns = elements of the loop that becomes vectors: the vector loop's register tile,
          or its L1 tile if the register tile has one column and the compiler vectorises the loop
          around it; loop_efficiency = loop_columns / lanes they occupy
        - ILP = accumulators / 8 chains, limited by the number of registers; spill = accumulators in
          excess of this number
        - balance = P / (ceil(P / cores) cores) with P iterations of the parallel band
        """
        tiles, spatial = candidates.tiles, self.workload.spatial
        out, element = self.workload.output, self.workload.output.element_bytes
        register = np.ones(tiles.shape[:2], dtype=np.int64)
        register[:, :spatial] = tiles[:, :spatial, 3]
        l1 = register.copy()
        l1[:, :spatial] *= tiles[:, :spatial, 2]
        l1[:, spatial:] = tiles[:, spatial:, 1]
        l2 = l1.copy()
        l2[:, :spatial] *= tiles[:, :spatial, 1]
        l2[:, spatial:] *= tiles[:, spatial:, 0]
        reads = [self._inputs(tile) for tile in (register, l1, l2)]
        writes = [footprint(out, tile) for tile in (register, l1, l2)]
        macs = [tile.prod(axis=1).astype(np.float64) for tile in (register, l1, l2)]
        revisits = np.where(tiles[:, spatial:, 0].prod(axis=1) > 1, 2.0, 0.0)

        lanes = self.device.lanes(element)
        columns = register[:, self._vector_loop]
        vectors = np.ceil(columns / lanes)
        rows = register.prod(axis=1) / columns
        looped = np.where(columns > 1, columns, tiles[:, self._vector_loop, 2])
        usable = self.device.accumulators
        accumulators = rows * vectors
        jobs = tiles[:, :spatial, 0].prod(axis=1).astype(np.float64)
        cores = self.device.cores
        return np.stack(
            [
                np.log2(macs[0] / reads[0]),
                np.log2(macs[1] / (reads[1] + revisits * writes[1])),
                np.log2(macs[2] / (reads[2] + writes[2])),
                np.log2((reads[1] + writes[1]) * element / self.device.l1_bytes),
                np.log2((reads[2] + writes[2]) * element / self.device.l2_bytes),
                columns / (vectors * lanes),
                np.log2(looped),
                looped / (np.ceil(looped / lanes) * lanes),
                np.log2(np.minimum(accumulators, usable) / _CHAINS),
                np.log2(1 + np.maximum(accumulators - usable, 0)),
                jobs / (np.ceil(jobs / cores) * cores),
                np.log2(1 + self._knob(candidates, "unroll")),
                self._knob(candidates, "write_cache"),
                np.log2(rows),
                np.log2(columns),
                np.log2(l1[:, spatial:].prod(axis=1)),
                self._knob(candidates, "pad_band"),
            ],
            axis=1,
        )

    def _inputs(self, tile: Integers) -> Floats:
        """Number of elements of all inputs that a tile accesses, (n,)."""
        return np.asarray(
            np.sum([footprint(access, tile) for access in self.workload.inputs], axis=0)
        )

    def _knob(self, candidates: Candidates, name: str) -> Floats:
        """The chosen values of a knob, (n,); zeros if the structure has no such knob."""
        try:
            return self.structure.values(candidates, name).astype(np.float64)
        except KeyError:
            return np.zeros(len(candidates))
