"""Reads the file of an experiment, which contains workloads, arms, seeds and the budget of every
run.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.core.budget import Budget
from tilewright.core.budget_text import parse_budget
from tilewright.core.config import Settings
from tilewright.core.errors import ConfigurationError, InputError, UnknownNameError
from tilewright.core.files import read_toml
from tilewright.core.text import shortened

SHIPPED = Path(__file__).parent / "files"
"""The folder of the predefined experiments, which are named by their files."""
MOST_CELLS = 100_000
_FIELDS = (
    *("name", "about", "workloads", "seeds", "budget", "baseline", "input_seed", "options"),
    "reuse",
)
_OF_ALL_ARMS = {
    **dict.fromkeys(("seed", "seeds"), "seeds"),
    "input_seed": "input_seed",
    **dict.fromkeys(("budget", *Settings.limits(Budget())), "budget"),
    "schedule_from": "[reuse.from]",
    "baseline": "baseline",
    "workloads": "workloads",
}
"""What an arm cannot choose, and the field of the file that sets it for all arms."""
_EXAMPLES = {"target": "gemmini", "share": 16}
"""Example values of the options that have no default."""
_LINES = {
    "budget": 'budget = "60 evaluations"',
    "baseline": 'baseline = "default"',
    "name": 'name = "Sizes of the beam"',
    "about": 'about = "What a wider beam gains."',
}
"""The pattern of a line with a field."""
_TABLES = {
    "arms": "[arms.default]",
    "reuse": "[reuse]",
    "from": "[reuse.from]",
}
"""The pattern of a table."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of an experiment: an arm on a workload with a seed.

    `source` is the run whose schedule it reuses; that run is not a cell of the experiment. It is
    None for a run that begins without a schedule.
    """

    workload: str
    arm: str
    seed: int
    settings: Settings = dataclasses.field(compare=False)
    source: Cell | None = None


@dataclass(frozen=True, slots=True)
class Experiment:
    """A matrix of runs. `arms` contains the settings of each arm, which override the common
    settings and the defaults of `Settings`.

    The first arm, or the arm that the file names, is the `baseline` with which other arms are
    compared. For arms with `reuse`, each run begins with the schedule that a run with the same
    settings and seed found on the source workload within `source_budget`.
    """

    name: str
    about: str
    workloads: tuple[str, ...]
    seeds: tuple[int, ...]
    budget: Budget
    baseline: str
    arms: Mapping[str, Settings]
    sources: Mapping[str, str] = dataclasses.field(default_factory=dict)
    source_budget: Budget = dataclasses.field(default_factory=Budget)

    @property
    def cells(self) -> list[Cell]:
        """All runs, in which the arms of one workload and seed are adjacent."""
        return [
            self._cell(workload, arm, seed, settings)
            for seed in self.seeds
            for workload in self.workloads
            for arm, settings in self.arms.items()
        ]

    def _cell(self, workload: str, arm: str, seed: int, settings: Settings) -> Cell:
        plain = dataclasses.replace(settings, seed=seed, reuse=False)
        if not settings.reuse:
            return Cell(workload, arm, seed, plain)
        longer = dataclasses.replace(plain, **Settings.limits(self.source_budget))
        return Cell(workload, arm, seed, plain, Cell(self.sources[workload], arm, seed, longer))


def shipped_names() -> list[str]:
    """Names of the experiments that come with the package."""
    return sorted(file.stem for file in SHIPPED.glob("*.toml"))


def read_experiment(name: str) -> Experiment:
    """The experiment in a TOML file, or the predefined experiment with this name.

    `ConfigurationError` says in one sentence what is wrong with it.
    """
    file = Path(name)
    if not name.endswith(".toml"):
        if name not in shipped_names():
            hint = "You can also give the path of a .toml file that describes an experiment."
            raise UnknownNameError("experiment", name, shipped_names(), hint)
        file = SHIPPED / f"{name}.toml"
    try:
        table = read_toml(file)
    except OSError as error:
        raise ConfigurationError(
            f"experiment file {file} cannot be read ({error.strerror}). Give the path of a valid "
            "TOML file."
        ) from error
    try:
        return _experiment(file, table)
    except InputError as error:
        raise ConfigurationError(f"experiment file {file}: {error}") from None


def _experiment(file: Path, table: Mapping[str, Any]) -> Experiment:
    for field in table:
        if field not in (*_FIELDS, "arms"):
            raise UnknownNameError("field", field, (*_FIELDS, "arms"))
    budget = parse_budget(_text(table, "budget"))
    shared = _input_seed(table, budget)
    common = _options("options", table.get("options", {}))
    arms: dict[str, Settings] = {}
    for name, options in _table(table, "arms").items():
        if not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"arm {name[:80]!r}. Give it a name of letters, digits and - _ . +."
            )
        chosen = {"reuse": False, **common, **_options(f"arms.{name}", options), **shared}
        arms[name] = Settings(**Settings.limits(budget), **chosen)
    baseline = _text(table, "baseline") if "baseline" in table else next(iter(arms))
    if baseline not in arms:
        raise UnknownNameError("arm", baseline, arms)
    found = Experiment(
        name=_text(table, "name") if "name" in table else file.stem,
        about=_text(table, "about") if "about" in table else "",
        workloads=_names(table, "workloads"),
        seeds=_seeds(table.get("seeds", 1)),
        budget=budget,
        baseline=baseline,
        arms=arms,
        **_sources(table),
    )
    _require_sources(found)
    cells = len(found.workloads) * len(found.seeds) * len(arms)
    if cells > MOST_CELLS:
        raise ConfigurationError(f"it asks for {cells:,} runs. Give at most {MOST_CELLS:,}.")
    return found


def _require_sources(found: Experiment) -> None:
    """Raise `ConfigurationError` unless the arms with `reuse` have a source for every workload, and
    every source is used.
    """
    reused = any(arm.reuse for arm in found.arms.values())
    for workload in found.sources:
        if workload not in found.workloads:
            raise ConfigurationError(
                f"[reuse.from] names {workload}, which is not a workload of the "
                "experiment. Add it to workloads, or leave it out."
            )
    for workload in found.workloads:
        if reused and workload not in found.sources:
            raise ConfigurationError(
                f"an arm has reuse = true, but there is nothing to reuse for {workload}. Name its "
                f'source in [reuse.from], as in "{workload}" = "gemmini:gemm-512x512x512".'
            )
    if found.sources and not reused:
        raise ConfigurationError(
            "it has a table [reuse], but no arm has reuse = true. Add this line to the arms that "
            "begin with a known schedule, or leave the table out."
        )


def _sources(table: Mapping[str, Any]) -> dict[str, Any]:
    """For each workload, the workload whose schedule is reused, and the budget of the runs that
    find these schedules.
    """
    if "reuse" not in table:
        return {}
    reuse = _table(table, "reuse")
    if set(reuse) - {"from", "budget"}:
        raise ConfigurationError("[reuse] may contain only a budget and a table [reuse.from].")
    sources = _table(reuse, "from")
    if not all(isinstance(name, str) for name in sources.values()):
        raise ConfigurationError("[reuse.from] must give the name of a workload for each workload.")
    return {"sources": dict(sources), "source_budget": parse_budget(_text(reuse, "budget"))}


def _input_seed(table: Mapping[str, Any], budget: Budget) -> dict[str, Any]:
    """The seed of the inputs, if all runs share the outcomes of equal kernels."""
    seed = table.get("input_seed")
    if seed is None:
        return {}
    if budget.wall_s is not None:
        raise ConfigurationError(
            "with input_seed, an arm reuses the outcomes of other arms, so a limit of time would "
            "allow some arms more work than others. Leave input_seed out, or limit evaluations."
        )
    return {"input_seed": seed}


def _options(name: str, options: object) -> dict[str, Any]:
    """The settings of an arm, by the names of `Settings`."""
    if not isinstance(options, Mapping):
        raise ConfigurationError(f"[{name}] is not a table of options.")
    known = [f.name for f in dataclasses.fields(Settings) if f.name not in _OF_ALL_ARMS]
    defaults = Settings()
    chosen: dict[str, Any] = {}
    for option, value in options.items():
        if option in _OF_ALL_ARMS:
            raise ConfigurationError(
                f"{option} in [{name}] is the same for all arms. Set {_OF_ALL_ARMS[option]} at "
                "the top of the file instead."
            )
        if option not in known:
            unknown = UnknownNameError("option", option, known)
            raise ConfigurationError(f"in [{name}]: {unknown}")
        value = tuple(value) if isinstance(value, list) else value
        example = _EXAMPLES.get(option, getattr(defaults, option))
        kind = type(example)
        fits = isinstance(value, (int, float) if kind is float else kind)
        fits = fits and (kind is not tuple or all(isinstance(item, str) for item in value))
        if not fits or (isinstance(value, bool) and kind is not bool):
            raise ConfigurationError(
                f"option {option} in [{name}] is {shortened(value)}. Give a value like {example!r}."
            )
        chosen[option] = value
    return chosen


def _text(table: Mapping[str, Any], field: str) -> str:
    value = table.get(field, "")
    if not isinstance(value, str):
        raise ConfigurationError(
            f"{field} is {shortened(value)}. Write text in quotes, as in {_LINES[field]}."
        )
    if not value:
        raise ConfigurationError(f"it has no {field}. Add a line like {_LINES[field]}.")
    return value


def _table(table: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    value = table.get(field, {})
    if not isinstance(value, Mapping):
        raise ConfigurationError(
            f"{field} is {shortened(value)}. Write a table such as {_TABLES[field]}."
        )
    if not value:
        raise ConfigurationError(f"it has no {field}. Add a table such as {_TABLES[field]}.")
    return value


def _names(table: Mapping[str, Any], field: str) -> tuple[str, ...]:
    value = table.get(field)
    if value and not (isinstance(value, list) and all(isinstance(v, str) for v in value)):
        raise ConfigurationError(
            f"{field} is {shortened(value)}. Give a list of names, as in workloads = "
            '["gemmini:gemm-256x256x256"].'
        )
    if not isinstance(value, list) or not value:
        raise ConfigurationError(
            f'it has no {field}. Add a line like workloads = ["gemmini:gemm-256x256x256"].'
        )
    return tuple(dict.fromkeys(value))


def _seeds(value: object) -> tuple[int, ...]:
    """The given number of seeds, beginning with 0, or the seeds of a list."""
    if type(value) is int and 0 < value <= MOST_CELLS:
        return tuple(range(value))
    seeds = value if isinstance(value, list) else []
    if not 0 < len(seeds) <= MOST_CELLS or not all(type(s) is int and s >= 0 for s in seeds):
        raise ConfigurationError(
            f"seeds is {shortened(value)}. Give the number of seeds, or a list of whole numbers "
            f"from 0 on. At most {MOST_CELLS:,} seeds are allowed."
        )
    return tuple(dict.fromkeys(seeds))
