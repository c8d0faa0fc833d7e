"""Compares a guided search of template parameters with random points and TPE.

    python benchmarks/template_search.py TABLES [NAME ...] [--random 1000] [--seeds 5] [--jobs 2]

Each template in `benchmarks/templates/` names its workload in its first line. The folder `TABLES`
stores every evaluated instance as one JSON line, so the same command continues after an
interruption and does not measure anything twice. The benchmark evaluates `--random` random points
and the points that the guided search requests, six at a time as in `tilewright optimize`. It counts
evaluations, including instances with wrong results, until one instance is within 3 % of the best
random point. For random points, the number is the expectation over all their orders: (n + 1) / (m +
1), if m of n points are good enough. Instances of Trainium templates are modelled in this process
without running them. The first, the best and `--checked` random instances of each are then
evaluated as in a search and must be correct and equally fast. With `--tpe`, Optuna's
tree-structured Parzen estimator (the extra `optuna`) is counted in the same way.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tilewright.core.config import Settings
from tilewright.core.records import Candidate, EvaluationRequest, Measured, Outcome
from tilewright.core.roles import ParameterSearch
from tilewright.core.tasks import OpenTask, open_task
from tilewright.core.templates import (
    KernelTemplate,
    ParameterSpace,
    Point,
    TriedPoint,
    parse_template,
)
from tilewright.executors import create_executor
from tilewright.tuner.parameters.searches import GuidedParameters, RandomParameters

TEMPLATES = Path(__file__).parent / "templates"
NEAR = 1.03
MOST = 300
"""Evaluations after which a guided search that found nothing good enough is given up."""
BATCH = 6
TPE_ASKED = 200
"""Suggestions of TPE for each point of a batch, most of which may break constraints."""
INPUT_SEED = 1


class Table:
    """Latencies of a template's instances by point: None where one is wrong."""

    def __init__(self, source: Path, folder: Path, jobs: int) -> None:
        text = source.read_text()
        self.workload = text.split("\n")[0].partition("workload:")[2].strip()
        self.is_modelled = self.workload.startswith("trainium")
        opened = open_task(self.workload, Settings(input_seed=INPUT_SEED).recorded())
        template = parse_template(text, opened.target.brief().language.templates)
        assert template is not None, f"{source} is no template"
        self.template: KernelTemplate = template
        settings = Settings(input_seed=INPUT_SEED).evaluated_with(INPUT_SEED)
        self._executor = create_executor(opened, settings, jobs, None)
        self._model = _model(opened) if self.is_modelled else None
        self._file = folder / f"{source.stem}.jsonl"
        self.latencies: dict[Point, float | None] = {}
        if self._file.exists():
            for line in self._file.read_text().splitlines():
                point, latency = json.loads(line)
                self.latencies[tuple(point)] = latency

    def of(self, points: Sequence[Point]) -> list[float | None]:
        """The points' latencies; those that are not known yet are evaluated and kept."""
        unknown = [point for point in points if point not in self.latencies]
        found = self.evaluated(unknown) if self._model is None else self._modelled(unknown)
        with self._file.open("a") as file:
            for point, latency in found:
                self.latencies[point] = latency
                file.write(json.dumps([point, latency]) + "\n")
                file.flush()
        return [self.latencies[point] for point in points]

    def _modelled(self, points: Sequence[Point]) -> Iterator[tuple[Point, float | None]]:
        assert self._model is not None
        for point in points:
            yield point, self._model(self._source(point))

    def evaluated(self, points: Sequence[Point]) -> list[tuple[Point, float | None]]:
        """The points with their latencies, built, checked and measured as in a search."""
        found = dict[Point, float | None]()

        def keep(position: int, outcome: Outcome, wall_s: float, cached: bool) -> None:
            latency = outcome.latency if isinstance(outcome, Measured) else None
            found[points[position]] = latency

        requests = [EvaluationRequest(Candidate(self._source(point))) for point in points]
        self._executor.evaluate(requests, keep)
        return [(point, found[point]) for point in points]

    def _source(self, point: Point) -> str:
        return self.template.instance(self.template.assignment(point))

    def differing(self, count: int) -> list[str]:
        """Of the first, the best and `count` random instances, those a search finds otherwise."""
        random = RandomParameters().next_points(self.template, [], count, 1)
        best = min((at, p) for p, at in self.latencies.items() if at)[1]
        points = list(dict.fromkeys([self.template.points()[0], best, *random]))
        modelled = self.of(points)
        return [
            f"{self.template.assignment(point)}: {latency} instead of {known}"
            for (point, latency), known in zip(self.evaluated(points), modelled, strict=True)
            if latency != known
        ]

    def close(self) -> None:
        """Stop its workers."""
        self._executor.close()


def _model(opened: OpenTask) -> Callable[[str], float | None]:
    """The modelled latency of a Trainium kernel in ns; None for one that breaks a rule."""
    from tilewright.targets.trainium.errors import KernelError
    from tilewright.targets.trainium.latency.model import estimate
    from tilewright.targets.trainium.program import Call, parse, trace_program
    from tilewright.targets.trainium.shapes import parse_shape
    from tilewright.targets.trainium.target import TrainiumTarget

    target = opened.target
    assert isinstance(target, TrainiumTarget)
    arguments, spec = opened.task.workload.arguments, opened.name.partition(":")[2]
    given = tuple(a for a in arguments if a.is_given)
    written = tuple(a for a in arguments if a.is_written)
    call, machine = Call(given, written, parse_shape(spec).constants), target.machine

    def latency(source: str) -> float | None:
        try:
            found = estimate(trace_program(parse(source), call, machine), machine)
        except KernelError:
            return None
        return None if found.capacity.excess() else found.latency_ns

    return latency


class TpeParameters:
    """Optuna's TPE as a `ParameterSearch`: multivariate, six at a time with its constant liar.

    Values are numbers in order, by their place among a parameter's values. A point that breaks a
    constraint or was tried is asked for again and costs no evaluation; it is told as failed, or as
    what it was.
    """

    def next_points(
        self, space: ParameterSpace, tried: Sequence[TriedPoint], count: int, seed: int
    ) -> list[Point]:
        """The next `count` points that TPE suggests after those tried."""
        import optuna
        from optuna.distributions import IntDistribution
        from optuna.trial import TrialState, create_trial

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
        study = optuna.create_study(sampler=sampler)
        values = {p.name: sorted(p.values) for p in space.parameters}
        places = {name: IntDistribution(0, len(found) - 1) for name, found in values.items()}
        slowest = max((t.latency for t in tried if t.latency is not None), default=1.0)
        known = {t.point: math.log(t.latency or 1.5 * slowest) for t in tried}
        for point, value in known.items():
            given = zip(values, point, strict=True)
            at = {name: values[name].index(of) for name, of in given}
            study.add_trial(create_trial(params=at, distributions=dict(places), value=value))
        allowed, found = set(space.points()), list[Point]()
        for _ in range(TPE_ASKED * count):
            trial = study.ask(dict(places))
            point = tuple(values[name][trial.params[name]] for name in values)
            if point not in allowed:
                study.tell(trial, state=TrialState.FAIL)
            elif point in known:
                study.tell(trial, known[point])
            elif point not in found:
                found.append(point)
                if len(found) == count:
                    break
        return found or RandomParameters().next_points(space, tried, count, seed)


def evaluations(search: ParameterSearch, table: Table, target: float, seed: int) -> int:
    """Evaluations until an instance is at most `target`; `MOST` where none is."""
    tried: list[TriedPoint] = []
    while len(tried) < MOST:
        asked = search.next_points(table.template, tried, BATCH, 1000 * seed + len(tried))
        for point, latency in zip(asked, table.of(asked), strict=True):
            tried.append(TriedPoint(point, latency))
            if latency is not None and latency <= target:
                return len(tried)
        if not asked:
            break
    return MOST


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tables", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--random", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--checked", type=int, default=10)
    parser.add_argument("--tpe", action="store_true", help="count Optuna's TPE as well")
    options = parser.parse_args()
    options.tables.mkdir(parents=True, exist_ok=True)
    print(
        f"{'template':16} {'points':>7} {'best':>10} {'good':>5} {'random':>7} {'guided':>7}  ratio"
    )
    ratios, over = [], []
    for source in sorted(TEMPLATES.iterdir()):
        if options.names and source.stem not in options.names:
            continue
        table = Table(source, options.tables, options.jobs)
        points = RandomParameters().next_points(table.template, [], options.random, 0)
        known = [latency for latency in table.of(points) if latency is not None]
        target = NEAR * min(known)
        good = sum(latency <= target for latency in known)
        expected = (len(points) + 1) / (good + 1)
        seeds = range(options.seeds)
        taken = [evaluations(GuidedParameters(), table, target, seed) for seed in seeds]
        tpe = [evaluations(TpeParameters(), table, target, s) for s in seeds if options.tpe]
        for wrong in table.differing(options.checked) if table.is_modelled else ():
            print(f"{source.stem}: evaluated otherwise: {wrong}", flush=True)
        table.close()
        ratio = statistics.mean(taken) / expected
        ratios.append(ratio)
        print(
            f"{source.stem:16} {len(table.template.points()):7} {min(known):10,.0f} {good:5} "
            f"{expected:7.1f} {statistics.mean(taken):7.1f}  {ratio:.2f}  "
            f"(seeds: {', '.join(map(str, taken))}; {table.workload})",
            flush=True,
        )
        if tpe:
            over.append(statistics.mean(taken) / statistics.mean(tpe))
            print(
                f"{'':16} TPE {statistics.mean(tpe):.1f} (seeds: {', '.join(map(str, tpe))}); "
                f"guided over TPE: {over[-1]:.2f}",
                flush=True,
            )
    if over:
        print(f"geometric mean over TPE: {statistics.geometric_mean(over):.2f}")
    print(f"geometric mean of the ratios: {statistics.geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main()
