"""Measures how fast the tuner predicts many candidates (features and cost model), on one thread.

For each workload, a model is trained on as many random candidates as a long search measures. Their
times are a smooth function of the features, because only the size of the trees matters here. Then
validity, features and prediction of many random candidates (20,000 distinct ones, repeated) are
timed. The goal is two seconds for 100,000 candidates, features and model together.

    python benchmarks/tune_prediction.py [--workloads M4 R2] [--count 100000] [--trained-on 1000]

Times are CPU time of this process, so other programs hardly change them.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from tilewright.tuner.benchmark_set import benchmark_workload
from tilewright.tuner.candidates import Candidates, Floats
from tilewright.tuner.cost_model import BoostedTrees, Features
from tilewright.tuner.detect import detect_cpu
from tilewright.tuner.device import GpuDevice, named_device
from tilewright.tuner.features.cpu import CpuFeatures
from tilewright.tuner.features.gpu import GpuFeatures
from tilewright.tuner.features.gpu_published import PublishedGpuFeatures
from tilewright.tuner.space import TileSpace
from tilewright.tuner.structure import cpu_structure, gpu_structure

BAR_S = 2.0


def cpu_seconds(work: Callable[[], object]) -> float:
    """Processor time that one call takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def made_up_times(features: Features, points: Candidates) -> list[float]:
    """Times that depend on every feature, so that the trees have something to learn."""
    values: Floats = features(points)
    scaled = (values - values.min(axis=0)) / (np.ptp(values, axis=0) + 1e-9)
    return [float(t) for t in 1e-4 * (1.0 + (scaled**2).sum(axis=1))]


def kinds(identifier: str) -> list[tuple[str, TileSpace, Features]]:
    """The sets of features for one workload, each with its space."""
    workload = benchmark_workload(identifier)
    device = named_device("h100")
    assert isinstance(device, GpuDevice)
    on_gpu, on_cpu = gpu_structure(workload), cpu_structure(workload)
    analytical = GpuFeatures(workload, on_gpu, device)
    space = TileSpace(workload, on_gpu, analytical.valid)
    return [
        ("gpu analytical", space, analytical),
        ("gpu published", space, PublishedGpuFeatures(workload, on_gpu, device)),
        (
            "cpu analytical",
            TileSpace(workload, on_cpu),
            CpuFeatures(workload, on_cpu, detect_cpu(cores=1)),
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--workloads", nargs="+", default=["M4", "R2"])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--trained-on", type=int, default=1000)
    arguments = parser.parse_args()
    print(f"{arguments.count} candidates, model of {arguments.trained_on} samples; cpu seconds")
    print(
        f"{'workload':<9} {'features':<15} {'points':>7} {'valid':>7} {'extract':>8} "
        f"{'both':>7} {'bar':>4}"
    )
    worst = 0.0
    for identifier in arguments.workloads:
        for name, space, features in kinds(identifier):
            rng = np.random.default_rng(0)
            trained = space.random(arguments.trained_on, rng)
            model = BoostedTrees(features)
            model.update(trained, made_up_times(features, trained))
            distinct = space.random(min(arguments.count, 20_000), rng)
            points = distinct[np.arange(arguments.count) % len(distinct)]
            valid = cpu_seconds(partial(space.valid, points))
            extract = cpu_seconds(partial(features, points))
            both = cpu_seconds(partial(model.predict, points))
            scaled = both * 100_000 / len(points)
            worst = max(worst, scaled)
            print(
                f"{identifier:<9} {name:<15} {len(points):7d} {valid:7.3f} "
                f"{extract:8.3f} {both:7.3f} {'ok' if scaled <= BAR_S else 'MISS':>4}"
            )
    print(f"worst: {worst:.2f} s for 100,000 candidates; bar {BAR_S:.1f} s")


if __name__ == "__main__":
    main()
