"""Schedule rules, postprocessors and mutators, named explicitly for each kind of device.

MetaSchedule's defaults for a target first load its tensor intrinsics; the rules here are the same
without them. `full` is MetaSchedule's default space. `template` contains exactly the tilings of a
`Structure`, from which a tile search draws points.
"""

from __future__ import annotations

from typing import Any

from tilewright.tuner.structure import Structure
from tilewright.tuner.tvm.loading import without_intrinsics
from tilewright.tuner.tvm.targets import TuningTarget


def context(
    function: Any,
    target: TuningTarget,
    rules: list[Any],
    strategy: Any,
    seed: int,
    unrolls: bool = True,
) -> Any:
    """A MetaSchedule tune context of a PrimFunc; `seed` decides all its random choices.

    `unrolls` says whether the rules leave a choice of unrolling. If they do not, MetaSchedule's
    mutator for it would fail instead of doing nothing.
    """
    from tvm.s_tir import meta_schedule as ms

    kind = "cuda" if target.is_gpu else "llvm"
    generator = ms.space_generator.PostOrderApply(
        sch_rules=rules,
        postprocs=ms.Postproc.create(kind),
        mutator_probs={
            mutator: probability
            for mutator, probability in ms.Mutator.create(kind).items()
            if unrolls or "MutateUnroll" not in str(mutator)
        },
    )
    with without_intrinsics():
        return ms.TuneContext(
            mod=function,
            target=target.target,
            space_generator=generator,
            search_strategy=strategy,
            num_threads=1,
            rand_state=seed + 1,  # zero would not be a valid state
        )


def normalised(function: Any) -> Any:
    """The module that MetaSchedule makes from a PrimFunc, to which stored traces apply."""
    from tvm.s_tir import meta_schedule as ms

    with without_intrinsics():
        return ms.TuneContext(mod=function, num_threads=1).mod


def full(target: TuningTarget) -> list[Any]:
    """MetaSchedule's default rules for this kind of device, without tensor intrinsics."""
    from tvm.s_tir import meta_schedule as ms

    return list(ms.ScheduleRule.create("cuda" if target.is_gpu else "llvm"))


def template(target: TuningTarget, structure: Structure) -> list[Any]:
    """Rules whose design spaces contain only the tilings of `structure`."""
    return _gpu(structure) if target.is_gpu else _cpu(structure)


def _cpu(structure: Structure) -> list[Any]:
    from tvm.s_tir.meta_schedule import schedule_rule as rule

    return [
        rule.InlineConstantScalars(),
        rule.AutoInline(
            into_producer=False,
            into_consumer=True,
            inline_const_tensor=True,
            disallow_if_then_else=True,
            require_injective=True,
            require_ordered=True,
            disallow_op=["tirx.exp"],
        ),
        rule.MultiLevelTiling(
            structure=structure.bands,
            max_innermost_factor=structure.max_innermost,
            reuse_write=rule.ReuseType(req="may", levels=[1, 2], scope="global"),
        ),
        rule.ParallelizeVectorizeUnroll(
            max_jobs_per_core=16,
            max_vectorize_extent=64,
            unroll_max_steps=list(structure.knobs[structure.knob("unroll")].choices),
            unroll_explicit=True,
        ),
        rule.RandomComputeLocation(),
    ]


def _gpu(structure: Structure) -> list[Any]:
    """The default GPU rules. A frozen level is left out of the tiling instead of being kept at
    1."""
    from tvm.s_tir.meta_schedule import schedule_rule as rule

    binds = ["blockIdx.x", "vthread.x", "threadIdx.x"]
    kept = [bind for level, bind in enumerate(binds) if level not in structure.frozen]
    dropped = len(binds) - len(kept)
    fetch = next(k.choices for k in structure.knobs if k.name.startswith("fetch_"))
    return [
        rule.MultiLevelTiling(
            structure=structure.bands[dropped:],
            tile_binds=kept,
            max_innermost_factor=structure.max_innermost,
            vector_load_lens=list(fetch),
            reuse_read=rule.ReuseType(req="must", levels=[4 - dropped], scope="shared"),
            reuse_write=rule.ReuseType(req="must", levels=[3 - dropped], scope="local"),
        ),
        rule.InlineConstantScalars(),
        rule.AutoInline(
            into_producer=True,
            into_consumer=True,
            inline_const_tensor=True,
            disallow_if_then_else=False,
            require_injective=False,
            require_ordered=False,
        ),
        rule.ParallelizeVectorizeUnroll(
            max_jobs_per_core=-1,
            max_vectorize_extent=-1,
            unroll_max_steps=list(structure.knobs[structure.knob("unroll")].choices),
            unroll_explicit=True,
        ),
        rule.AutoBind(max_threadblocks=256, thread_extents=[32, 64, 128, 256, 512, 1024]),
    ]
