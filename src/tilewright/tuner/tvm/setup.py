"""Assembles a search from program, target, space, features, model and strategy."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from tilewright.core.errors import ConfigurationError
from tilewright.tuner.candidates import Candidates
from tilewright.tuner.construction import ConstructedTiles
from tilewright.tuner.cost_model import BoostedTrees, CostModel, Features
from tilewright.tuner.device import CpuDevice, GpuDevice
from tilewright.tuner.features.cpu import CpuFeatures
from tilewright.tuner.features.gpu import GpuFeatures
from tilewright.tuner.features.gpu_published import PublishedGpuFeatures
from tilewright.tuner.gradient_search import PRETRAINED, GradientSearch
from tilewright.tuner.search import RandomSearch, TileSearch
from tilewright.tuner.space import TileSpace, Validity
from tilewright.tuner.structure import Structure, cpu_structure, gpu_structure
from tilewright.tuner.training_set import TrainingSet, shipped_training_set
from tilewright.tuner.tvm import rules
from tilewright.tuner.tvm.analysis import Anatomy, analyse
from tilewright.tuner.tvm.programs import Program
from tilewright.tuner.tvm.strategies import EvolutionaryStrategy, Strategy, TileStrategy
from tilewright.tuner.tvm.targets import TuningTarget
from tilewright.tuner.tvm.template import Template
from tilewright.tuner.tvm.trials import Ledger
from tilewright.tuner.workload import TensorWorkload

SearchName = Literal["gradient", "evolutionary", "random", "constructed"]
FeatureName = Literal["analytical", "published", "tvm164"]
SpaceName = Literal["template", "restricted", "full"]


@dataclass(frozen=True)
class Method:
    """How a space is searched.

    `space` is "template" (the tilings of the structure with all its knobs), "restricted" (the same,
    but with fixed unrolling and without virtual threads, as in the paper), or "full"
    (MetaSchedule's own space). With `pretrained`, the cost model is trained on measurements of
    other workloads from the start, and the descent starts from points with good predictions. With
    `unrelated`, of the measurements in the package, it uses only those of other families, as for a
    workload that resembles none of them.
    """

    search: SearchName = "gradient"
    features: FeatureName = "analytical"
    space: SpaceName = "restricted"
    pretrained: bool = field(default=False, repr=False)  # earlier runs used the same names
    unrelated: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        for value, kind in (
            (self.search, SearchName),
            (self.features, FeatureName),
            (self.space, SpaceName),
        ):
            if value not in get_args(kind):
                raise ConfigurationError(
                    f"unknown method {value!r}: expected one of {', '.join(get_args(kind))}."
                )
        if self.space == "full" and (self.search != "evolutionary" or self.features != "tvm164"):
            raise ConfigurationError(
                "MetaSchedule's full space has no closed form: search it with --search "
                "evolutionary --features tvm164."
            )
        if self.pretrained and (self.search, self.features) != ("gradient", "analytical"):
            raise ConfigurationError(
                f"--pretrained: --search {self.search} --features {self.features} has no cost "
                "model that was trained before. Leave out --pretrained, or search by gradient on "
                "analytical features."
            )


ARMS: dict[str, Method] = {
    "default": Method("evolutionary", "tvm164", "full"),
    "restricted": Method("evolutionary", "tvm164", "restricted"),
    "af": Method("evolutionary", "analytical", "restricted"),
    "ds": Method("gradient", "tvm164", "restricted"),
    "af-ds": Method("gradient", "analytical", "restricted"),
    "af-ds-knobs": Method("gradient", "analytical", "template"),
    "af-ds-pretrained": Method("gradient", "analytical", "restricted", pretrained=True),
    "af-ds-unrelated": Method(
        "gradient", "analytical", "restricted", pretrained=True, unrelated=True
    ),
    "roller": Method("constructed", "analytical", "restricted"),
    "random": Method("random", "analytical", "restricted"),
}
"""The arms of a comparison. The first five are the paper's. af-ds-knobs also changes the knobs that
are fixed in the paper. af-ds-pretrained begins with a cost model of other workloads, and
af-ds-unrelated with one of other families of workloads. roller measures up to 50 tiles that are
constructed by rules. random is the baseline that any search must beat."""


def method_name(method: Method) -> str:
    """The name of a method in tables of kernels: the paper's, if it is one of the paper's."""
    if method.space == "full":
        return "MetaSchedule"
    knobs = "" if method.space == "restricted" else " with knobs"
    if (method.search, method.features) == ("gradient", "analytical"):
        return f"AF-DS{knobs}"
    return f"{method.search} search on {method.features} features{knobs}"


def comes_pretrained(target: TuningTarget, search: str, features: str) -> bool:
    """Whether a search's cost model is by default trained on the measurements in the package.

    These were measured with one thread, so they do not show how work is divided among several
    threads.
    """
    return (
        isinstance(target.device, CpuDevice)
        and target.threads == 1
        and (search, features) == ("gradient", "analytical")
        and shipped_training_set(CpuFeatures.names) is not None
    )


@dataclass(frozen=True)
class Earlier:
    """Results of earlier runs in a space: starting points, and training data for the cost model."""

    starts: Candidates
    trials: TrainingSet | None = None


@dataclass
class Search:
    """A search that can be started."""

    program: Program
    target: TuningTarget
    anatomy: Anatomy
    structure: Structure
    module: Any
    strategy: Strategy
    ledger: Ledger = field(default_factory=Ledger)


def open_search(
    program: Program,
    target: TuningTarget,
    method: Method,
    trials: int,
    seed: int,
    earlier: Callable[[TileSpace], Earlier] | None = None,
) -> Search:
    """The search that `method` names. A gradient search uses the results in `earlier`, if given.

    Raises `WorkloadError` for a program that the rules cannot tile, and `ConfigurationError` for
    features that the device does not have.
    """
    anatomy = analyse(program.function, program.name)
    structure = _structure(anatomy.workload, target, method)
    features = features_of(anatomy.workload, structure, target, method)
    template = None
    if method.space != "full":
        template = _template(program, target, anatomy, structure, seed)
    ledger = Ledger()
    if method.search == "evolutionary" or template is None:
        context = rules.context(
            program.function,
            target,
            rules.full(target) if template is None else rules.template(target, structure),
            _evolution(),
            seed,
            unrolls=template is None or len(structure.knobs[structure.knob("unroll")].choices) > 1,
        )
        model = _evolution_model(method, template, features, seed)
        strategy: Strategy = EvolutionaryStrategy(context, model, trials, ledger, template, seed)
        return Search(program, target, anatomy, structure, context.mod, strategy, ledger)
    space = TileSpace(anatomy.workload, structure, _validity(anatomy.workload, structure, target))
    scorer: CostModel | None = None
    if method.search == "random":
        tiles: TileSearch = RandomSearch(space, trials, seed)
    elif method.search == "constructed":
        tiles = ConstructedTiles(space, _processor(target), trials)
    else:
        started = time.perf_counter()
        known = Earlier(space.nothing) if earlier is None else earlier(space)
        scorer = _model(method, template, features, seed, anatomy.workload, known.trials)
        settings = PRETRAINED if method.pretrained else None
        tiles = GradientSearch(space, scorer, trials, seed, settings, known.starts)
        ledger.search_s += time.perf_counter() - started
    strategy = TileStrategy(tiles, template, scorer, ledger)
    return Search(program, target, anatomy, structure, template.context.mod, strategy, ledger)


def features_of(
    workload: TensorWorkload, structure: Structure, target: TuningTarget, method: Method
) -> Features:
    """The closed-form features of this device for the method."""
    if isinstance(target.device, GpuDevice):
        kind = PublishedGpuFeatures if method.features == "published" else GpuFeatures
        return kind(workload, structure, target.device)
    if method.features == "published":
        raise ConfigurationError(
            "--features published: the published features are those of a GPU. Use analytical here."
        )
    return CpuFeatures(workload, structure, target.device)


def _structure(workload: TensorWorkload, target: TuningTarget, method: Method) -> Structure:
    restricted = method.space == "restricted"
    if target.is_gpu:
        return gpu_structure(workload, restricted=restricted)
    return cpu_structure(workload, restricted=restricted)


def _processor(target: TuningTarget) -> CpuDevice:
    if not isinstance(target.device, CpuDevice):
        raise ConfigurationError("the rules that construct tiles apply only to CPUs.")
    return target.device


def _validity(
    workload: TensorWorkload, structure: Structure, target: TuningTarget
) -> Validity | None:
    if isinstance(target.device, CpuDevice):
        return None
    return GpuFeatures(workload, structure, target.device).valid


def _template(
    program: Program, target: TuningTarget, anatomy: Anatomy, structure: Structure, seed: int
) -> Template:
    from tvm.s_tir import meta_schedule as ms

    context = rules.context(
        program.function,
        target,
        rules.template(target, structure),
        ms.search_strategy.ReplayTrace(),
        seed,
    )
    return Template(context, anatomy, structure)


def _model(
    method: Method,
    template: Template,
    features: Features,
    seed: int,
    workload: TensorWorkload,
    earlier: TrainingSet | None,
) -> CostModel:
    if method.features == "tvm164":
        from tilewright.tuner.tvm.plugins import TvmFeatureModel

        return TvmFeatureModel(template, seed)
    if not method.pretrained:
        return BoostedTrees(features, seed)
    shipped = shipped_training_set(features.names)
    if shipped is None:
        raise ConfigurationError(
            "--pretrained: no cost model was trained before for this target, only for CPUs. "
            "Leave out --pretrained."
        )
    # In a comparison, the model must not have been trained on the same workload.
    known = [
        shipped.without_family(workload.family) if method.unrelated else shipped.without(workload)
    ]
    if earlier is not None:
        known.append(earlier)
    return BoostedTrees(features, seed, known=TrainingSet.concatenate(known))


def _evolution() -> Any:
    from tvm.s_tir import meta_schedule as ms

    return ms.search_strategy.EvolutionarySearch()


def _evolution_model(
    method: Method, template: Template | None, features: Features, seed: int
) -> Any:
    """MetaSchedule's own model with its own settings, or the paper's model on analytical
    features."""
    from tvm.s_tir import meta_schedule as ms

    from tilewright.tuner.tvm.plugins import AnalyticalFeatures, boosted_trees

    if method.features == "tvm164" or template is None:
        return ms.cost_model.XGBModel(num_tuning_cores=1)
    return boosted_trees(AnalyticalFeatures(template, features), seed)
