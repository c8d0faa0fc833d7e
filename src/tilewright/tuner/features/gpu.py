"""The seven features of a CUDA candidate, and which candidates can run on a device.

Source: C. Li, Y. Xu, S. M. Saravani, P. Sadayappan, "Accelerated Auto-Tuning of GPU Kernels for
Tensor Computations", ICS 2024. Symbols, all per candidate: `TB` threads of a block, `nw =
ceil(TB / 32)` its warps, `reg` outputs of a thread (virtual threads included), `kk` reduction
iterations between two fills of shared memory, `steps` the number of fills, `grid` blocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tilewright.tuner.candidates import Booleans, Candidates, Floats, Integers
from tilewright.tuner.device import GpuDevice
from tilewright.tuner.features.footprint import footprint, tile_shape
from tilewright.tuner.structure import Structure
from tilewright.tuner.workload import Access, TensorWorkload

FEATURES = ("oi_global", "oi_shared", "reg_reuse", "ilp", "wlp", "occupancy", "wave")

_BANKS = 32
# Registers for addresses and loop counters, in addition to the tiles of a thread.
_OVERHEAD_REGISTERS = 25
# A kernel with more accumulators than a thread has registers always spills; the code generator does
# not reject it.
_MOST_ACCUMULATORS = 256
# Maximum number of virtual threads that TVM's VerifyGPUCode accepts.
_MOST_VTHREADS = 8
_ALIGNMENT = 64
# Compute capability since which shared memory can be filled asynchronously.
_ASYNCHRONOUS_COPY = 80


@dataclass(frozen=True)
class KernelShape:
    """Launch shape and tiles of the generated kernel, (n,) each, which tests compare with TVM's
    lowered code.

    `shared` and `register_inputs` have one entry for each input: the number of elements of its tile
    in shared memory (of shape `shared_shapes`, (n, dims)), and of the part that a thread reads at
    once. `shared_bytes` is the total of all stages.
    """

    grid: Integers
    vthreads: Integers
    threads: Integers
    register_tile: Integers
    inner_reduction: Integers
    steps: Integers
    shared_shapes: tuple[Integers, ...]
    shared_bytes: Integers
    register_inputs: tuple[Floats, ...]


@dataclass(frozen=True)
class FeatureTerms:
    """Parts of the features, (n,) each; tuples have one entry for each input.

    `fetches` is the number of copies from global memory by each thread in one step, before rounding
    up, of `fetch_widths` elements each; `loads` is the number of elements that a thread reads from
    shared memory in one step, and `degrees` is the degree of their bank conflicts.
    """

    shape: KernelShape
    reg: Floats
    threads: Floats
    warps: Floats
    fetches: tuple[Floats, ...]
    fetch_widths: tuple[Integers, ...]
    loads: tuple[Floats, ...]
    degrees: tuple[Floats, ...]
    reg_reuse: Floats

    def oi_shared(self, loads: Floats) -> Floats:
        """Multiply-accumulates for each lane of `loads` transactions with shared memory, (n,)."""
        work = self.threads * self.reg * self.shape.inner_reduction
        return np.asarray(work / (32.0 * self.warps * loads))


class GpuFeatures:
    """Features and validity of SSSRRSRS candidates of one workload on one device."""

    def __init__(self, workload: TensorWorkload, structure: Structure, device: GpuDevice) -> None:
        self.workload = workload
        self.structure = structure
        self.device = device
        # Knobs that the seven features do not reflect; a structure may let the search change them.
        self._extra = [
            knob.name
            for knob in structure.knobs
            if knob.name in ("unroll", "stages") and len(knob.choices) > 1
        ]
        self.names: tuple[str, ...] = (*FEATURES, *self._extra)

    def shape(self, candidates: Candidates) -> KernelShape:
        """Launch shape, tiles and shared memory of each candidate."""
        tiles, spatial = candidates.tiles, self.workload.spatial
        outer = tiles[:, :spatial]
        per_thread, per_block = self.tile_of_thread(candidates), self.tile_of_block(candidates)
        shared = tuple(tile_shape(access, per_block) for access in self.workload.inputs)
        return KernelShape(
            grid=outer[:, :, 0].prod(axis=1),
            vthreads=outer[:, :, 1].prod(axis=1),
            threads=outer[:, :, 2].prod(axis=1),
            register_tile=per_thread.prod(axis=1),
            inner_reduction=per_block[:, spatial:].prod(axis=1),
            steps=tiles[:, spatial:, 0].prod(axis=1),
            shared_shapes=shared,
            shared_bytes=self.structure.values(candidates, "stages")
            * np.sum(
                [
                    shape.prod(axis=1) * access.element_bytes
                    for shape, access in zip(shared, self.workload.inputs, strict=True)
                ],
                axis=0,
            ),
            register_inputs=tuple(footprint(a, per_thread) for a in self.workload.inputs),
        )

    def valid(self, candidates: Candidates) -> Booleans:
        """Which candidates can be launched, fit into shared memory and keep their accumulators in
        registers, (n,)."""
        shape = self.shape(candidates)
        device = self.device
        ok = (shape.threads >= device.warp_size) & (shape.threads <= device.threads_per_block)
        # The code generator aligns every shared tile; padding after the last tile is not needed.
        padding = (len(shape.shared_shapes) - 1) * (_ALIGNMENT - 1)
        ok &= shape.shared_bytes + padding <= device.shared_bytes_per_block
        ok &= shape.vthreads <= _MOST_VTHREADS
        ok &= shape.register_tile <= _MOST_ACCUMULATORS
        # TVM cannot lower a pipeline that has only one step.
        pipelines = shape.steps > 1
        if device.compute_capability < _ASYNCHRONOUS_COPY:
            pipelines[:] = False
        ok &= pipelines | (self.structure.values(candidates, "stages") == 1)
        return np.asarray(ok & (self._blocks_per_sm(shape) > 0), dtype=np.bool_)

    def __call__(self, candidates: Candidates) -> Floats:
        """The corrected features of each candidate, (n, 7), in the order of `names`; if the search
        can change unrolling or stages, the features also contain log2(1 + choice) of each.

        - OI_Global = MACs / (32 grid [steps nw sum_b ceil(shared_b / (TB fetch_b)) + reg nw])
        - OI_Shared = TB reg kk / (32 nw sum_b degree_b loads_b), with the degree of bank conflict
          of warp 0 simulated over its lanes, and loads_b the elements a thread reads in a step
        - Reg_Reuse = 1 / sum_b (1 / reuse_b): outputs of a thread that use a loaded element; for
          the output all reduction iterations, since accumulators stay in registers throughout
        - ILP = reg; WLP = blocks on an SM times nw; Occupancy = WLP / warps an SM can hold
        - Wave = w / ceil(w) with w = grid / (SMs blocks on an SM)
        """
        terms = self.terms(candidates)
        device = self.device
        blocks = np.maximum(self._blocks_per_sm(terms.shape), 1)
        wlp = blocks * terms.warps
        waves = terms.shape.grid / (device.sms * blocks)
        columns = [
            self._oi_global(terms, np.sum([np.ceil(f) for f in terms.fetches], axis=0)),
            terms.oi_shared(np.sum(np.multiply(terms.degrees, terms.loads), axis=0)),
            terms.reg_reuse,
            terms.reg,
            wlp,
            wlp / device.warps_per_sm,
            waves / np.ceil(waves),
            *(np.log2(1 + self.structure.values(candidates, name)) for name in self._extra),
        ]
        return np.stack(columns, axis=1)

    def terms(self, candidates: Candidates) -> FeatureTerms:
        """The terms of which the features are computed, for every candidate."""
        shape = self.shape(candidates)
        spatial = self.workload.spatial
        reg = shape.register_tile.astype(np.float64)
        threads = shape.threads.astype(np.float64)
        per_thread = self.tile_of_thread(candidates)
        inverse_reuse = np.full(len(candidates), 1 / math.prod(self.workload.extents[spatial:]))
        fetches, widths, loads, degrees = [], [], [], []
        for position, access in enumerate(self.workload.inputs):
            box = shape.shared_shapes[position]
            width = self.structure.values(candidates, f"fetch_{access.buffer}")
            widths.append(width)
            fetches.append(box.prod(axis=1) / (threads * width))
            degrees.append(self._bank_conflicts(access, box, candidates.tiles, shape.threads))
            own = per_thread[:, sorted(n for n in access.loops if n < spatial)].prod(axis=1)
            loads.append(own * shape.inner_reduction.astype(np.float64))
            inverse_reuse += own / reg
        return FeatureTerms(
            shape=shape,
            reg=reg,
            threads=threads,
            warps=np.ceil(threads / self.device.warp_size),
            fetches=tuple(fetches),
            fetch_widths=tuple(widths),
            loads=tuple(loads),
            degrees=tuple(degrees),
            reg_reuse=1 / inverse_reuse,
        )

    def _oi_global(self, terms: FeatureTerms, fetches: Floats) -> Floats:
        """Multiply-accumulates for each lane of a transaction with global memory, (n,)."""
        transactions = terms.warps * (terms.shape.steps * fetches + terms.reg)
        return np.asarray(self.workload.macs / (32.0 * terms.shape.grid * transactions))

    def tile_of_thread(self, candidates: Candidates) -> Integers:
        """Iterations of each loop that one thread executes in one step of the reduction, (n,
        loops)."""
        spatial = candidates.tiles[:, : self.workload.spatial]
        covered = np.ones(candidates.tiles.shape[:2], dtype=np.int64)
        covered[:, : self.workload.spatial] = spatial[:, :, 1] * spatial[:, :, 3] * spatial[:, :, 4]
        return covered

    def tile_of_block(self, candidates: Candidates) -> Integers:
        """Iterations of each loop that one block executes in one step of the reduction, (n,
        loops)."""
        spatial = self.workload.spatial
        covered = self.tile_of_thread(candidates)
        covered[:, :spatial] *= candidates.tiles[:, :spatial, 2]
        covered[:, spatial:] = candidates.tiles[:, spatial:, 1:3].prod(axis=2)
        return covered

    def _blocks_per_sm(self, shape: KernelShape) -> Integers:
        """Number of blocks that one SM holds at once, limited by threads, shared memory and
        registers."""
        device = self.device
        threads = -(-shape.threads // device.warp_size) * device.warp_size
        inputs = np.sum(shape.register_inputs, axis=0)
        wanted = shape.register_tile + inputs + _OVERHEAD_REGISTERS
        registers = np.minimum(wanted.astype(np.int64), device.registers_per_thread)
        limits = np.stack(
            [
                device.threads_per_sm // threads,
                device.shared_bytes_per_sm // (shape.shared_bytes + device.reserved_shared_bytes),
                device.registers_per_sm // (registers * threads),
                np.full(len(threads), device.blocks_per_sm),
            ]
        )
        return np.asarray(limits.min(axis=0), dtype=np.int64)

    def _bank_conflicts(
        self, access: Access, box: Integers, tiles: Integers, threads: Integers
    ) -> Floats:
        """Degree of the bank conflict when warp 0 reads its first element of an input's shared
        tile.

        This is the largest number of distinct words that its lanes request from one of the 32 banks
        at once, (n,).
        """
        spatial = self.workload.spatial
        lanes = np.arange(_BANKS)[None, :] % np.minimum(threads, _BANKS)[:, None]
        coordinate: dict[int, Integers] = {}
        for loop in reversed(range(spatial)):
            extent = tiles[:, loop, 2][:, None]
            coordinate[loop] = lanes % extent
            lanes = lanes // extent
        strides = np.ones_like(box)
        for dim in reversed(range(box.shape[1] - 1)):
            strides[:, dim] = strides[:, dim + 1] * box[:, dim + 1]
        address = np.zeros((len(box), _BANKS), dtype=np.int64)
        for dim, terms in enumerate(access.dims):
            for loop, coefficient in terms:
                if loop < spatial:
                    step = strides[:, dim] * coefficient * tiles[:, loop, 3] * tiles[:, loop, 4]
                    address += coordinate[loop] * step[:, None]
        address.sort(axis=1)
        distinct = np.ones(address.shape, dtype=np.bool_)
        distinct[:, 1:] = address[:, 1:] != address[:, :-1]
        rows = np.arange(len(box))[:, None] * _BANKS
        counts = np.bincount(
            (rows + address % _BANKS)[distinct], minlength=len(box) * _BANKS
        ).reshape(len(box), _BANKS)
        return np.asarray(counts.max(axis=1, initial=1), dtype=np.float64)
