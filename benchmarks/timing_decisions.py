"""Shows how often the timing rules err, on synthetic noise with a known ratio.

python benchmarks/timing_decisions.py [--trials 1000]

For each kind of noise and each true ratio, the benchmark prints the share of trials that are
decided as "faster" by one session, and by one session with confirmation. At a true ratio of 1.00,
every one of these decisions is wrong.
"""

from __future__ import annotations

import argparse

from tilewright.testing.clocks import Noise, synthetic_clock
from tilewright.timing import Session, TimingPlan, compare, confirm, measure_pairs

NOISES = {
    "2 % noise": Noise(),
    "5 % noise": Noise(spread=0.05),
    "2 % noise, 5 % of calls hit by interrupts": Noise(spikes=0.05),
    "2 % noise, clock rate wanders by 0.5 % per call": Noise(wander=0.005),
    "2 % noise, 4 % drift per session": Noise(drift=0.04),
}
RATIOS = (1.0, 1.01, 1.02, 1.03, 1.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--trials", type=int, default=1000, help="trials for each cell")
    trials = parser.parse_args().trials
    plan = TimingPlan()
    print(f"{trials} trials a cell; {plan}")
    print("share decided 'faster': by one session / confirmed in fresh sessions\n")
    print(f"{'noise':45s}" + "".join(f"{ratio:>16.2f}" for ratio in RATIOS))
    for name, noise in NOISES.items():
        cells = [shares(ratio, noise, plan, trials) for ratio in RATIOS]
        print(f"{name:45s}" + "".join(f"{a:>8.1%} /{b:>6.1%}" for a, b in cells), flush=True)


def shares(ratio: float, noise: Noise, plan: TimingPlan, trials: int) -> tuple[float, float]:
    found = confirmed = 0
    for trial in range(trials):

        def open_session(index: int, trial: int = trial) -> Session:
            clock = synthetic_clock(ratio, noise, seed=1000 * trial + index)
            return measure_pairs(clock, plan, seed=trial)

        if compare(open_session(999), plan, seed=trial).decision != "faster":
            continue
        found += 1
        confirmed += confirm(open_session, plan, seed=trial).pooled.decision == "faster"
    return found / trials, confirmed / trials


if __name__ == "__main__":
    main()
