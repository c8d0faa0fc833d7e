"""The features as the paper's published code computes them, for comparison with the corrected set.
Source: the fork of the auto-scheduler that was published with the paper (github.com/HPCRL/ics24tvm,
src/auto_scheduler/feature.cc). Where it departs from the paper's definitions:

- an eighth feature, WLP times ILP;
- WLP divides 64 Ki *bytes* of shared memory by *elements*, does not round, and takes the lesser of
  that and a register term which counts blocks, not warps;
- occupancy divides the thread limit and the shared memory of one *block*, not of the SM, and takes
  the *bytes* of the accumulators for a number of registers;
- the wave ignores how many blocks share an SM;
- a footprint along a dimension is the sum of its terms' tiles, without the overlap of one;
- fetches are rounded up before they are divided by the vector width;
- bank conflicts count only where kk is a multiple of 32.
"""

from __future__ import annotations

import numpy as np

from tilewright.tuner.candidates import Candidates, Floats, Integers
from tilewright.tuner.device import GpuDevice
from tilewright.tuner.features.gpu import GpuFeatures
from tilewright.tuner.structure import Structure
from tilewright.tuner.workload import Access, TensorWorkload

FEATURES = ("wave", "occupancy", "ilp", "wlp", "wlp_ilp", "reg_reuse", "oi_global", "oi_shared")

_SHARED_CAPACITY = 64 * 1024
_REGISTERS = 64 * 1024
_WLP_OVERHEAD_REGISTERS = 25
_OCCUPANCY_OVERHEAD = 20
_WARPS_PER_SM = 64
_BANKS = 32


class PublishedGpuFeatures(GpuFeatures):
    """The published features of SSSRRSRS candidates. Validity is that of `GpuFeatures`."""

    def __init__(self, workload: TensorWorkload, structure: Structure, device: GpuDevice) -> None:
        super().__init__(workload, structure, device)
        self.names = FEATURES

    def __call__(self, candidates: Candidates) -> Floats:
        """The published features of each candidate, (n, 8), in the order of `names`."""
        terms = self.terms(candidates)
        shape, device = terms.shape, self.device
        per_thread, per_block = self.tile_of_thread(candidates), self.tile_of_block(candidates)
        inputs = self.workload.inputs
        shared = np.sum([_summed_footprint(access, per_block) for access in inputs], axis=0)
        registers = terms.reg + np.sum(
            [_summed_footprint(access, per_thread) for access in inputs], axis=0
        )
        wlp = np.minimum(
            _SHARED_CAPACITY / shared * terms.warps,
            _REGISTERS / ((registers + _WLP_OVERHEAD_REGISTERS) * terms.threads),
        )
        padded_threads = terms.warps * device.warp_size
        accumulator_bytes = terms.reg * self.workload.output.element_bytes
        block_registers = (accumulator_bytes + _OCCUPANCY_OVERHEAD) * padded_threads
        blocks = np.minimum.reduce(
            [
                device.threads_per_block // padded_threads,
                device.shared_bytes_per_block // shape.shared_bytes,
                _REGISTERS // (block_registers + _OCCUPANCY_OVERHEAD),
            ]
        )
        waves = shape.grid / device.sms
        fetches = np.sum(
            [
                np.ceil(fetch * width) / width
                for fetch, width in zip(terms.fetches, terms.fetch_widths, strict=True)
            ],
            axis=0,
        )
        conflicts = np.where(shape.inner_reduction % _BANKS == 0, terms.degrees, 1.0)
        columns = [
            waves / np.ceil(waves),
            terms.warps * blocks / _WARPS_PER_SM,
            terms.reg,
            wlp,
            wlp * terms.reg,
            terms.reg_reuse,
            self._oi_global(terms, fetches),
            terms.oi_shared(np.sum(conflicts * np.stack(terms.loads), axis=0)),
        ]
        return np.stack(columns, axis=1)


def _summed_footprint(access: Access, tile: Integers) -> Floats:
    """Product over a buffer's dimensions of the sum of its terms' tiles, (n,)."""
    size = np.ones(len(tile))
    for terms in access.dims:
        if terms:
            size *= np.sum([abs(c) * tile[:, loop] for loop, c in terms], axis=0)
    return size
