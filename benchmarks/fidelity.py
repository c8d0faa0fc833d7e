"""Compares simulated cycles with RTL simulation, and shows the effect of each rule of the model.

python benchmarks/fidelity.py [--micro] [--ablations] [--cv]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import tilewright.targets.gemmini
from tilewright.targets.gemmini.sim import SimConfig, load_config, run_program

TESTS = Path(__file__).parents[1] / "tests"
sys.path.insert(0, str(TESTS))
from cross_validation import STEPS, cross_validate  # noqa: E402
from target.gemmini_rtl import corpus  # type: ignore[import-not-found]  # noqa: E402

ABLATIONS: Mapping[str, Mapping[str, int]] = {
    "64 instead of 16 DMA requests in flight": {"dma_in_flight": 64},
    "DRAM twice as fast": {"dram_line_cycles": 4},
    "DRAM half as fast": {"dram_line_cycles": 16},
    "DRAM answers at once": {"dram_latency": 1, "dram_line_cycles": 1},
    "100 instead of 10 requests handled by the L2": {"l2_mshrs": 100},
    "evictions cost nothing": {"l2_release_latency": 1, "l2_release_cycles": 1},
    "stores that miss hold up nothing": {"l2_store_miss_cycles": 0},
    "reservation station of 32 entries each": {
        "commands_load_entries": 32,
        "commands_execute_entries": 32,
        "commands_store_entries": 32,
    },
    "loads do not wait for stores": {"cpu_replay": 1},
    "multiplies in one step": {"cpu_multiply_bits": 32},
    "free branches": {"cpu_branch_miss": 0},
    "no branch targets kept": {"cpu_branch_targets": 1},
    "L1 misses cost no more than the L2's answer": {"cpu_l1_refill": 0, "cpu_fetch_refill": 0},
    "one scratchpad bank": {"scratchpad_banks": 1, "scratchpad_bank_rows": 16384},
    "one accumulator bank": {"accumulator_banks": 1, "accumulator_bank_rows": 1024},
    "results scaled without delay": {"accumulator_scale_latency": 1},
}


def cycles(config: SimConfig, program: corpus.Program) -> int:
    result = run_program(config, program.elf, [(corpus.POOL_ADDRESS, corpus.pool())])
    if result.status != "ok":
        raise SystemExit(f"{program.name}: {result.status} {result.fault}")
    return result.cycles


def errors(config: SimConfig, programs: Sequence[corpus.Program]) -> list[float]:
    return [cycles(config, p) / p.rtl_cycles - 1 for p in programs]


def summary(found: Sequence[float]) -> str:
    sizes = [abs(e) for e in found]
    return f"mean {100 * sum(sizes) / len(sizes):5.2f} %  worst {100 * max(sizes):5.2f} %"


def print_table(config: SimConfig, programs: Sequence[corpus.Program]) -> None:
    print(f"{'program':24} {'RTL':>8} {'simulated':>9} {'error':>8}")
    found = errors(config, programs)
    for program, error in zip(programs, found, strict=True):
        simulated = round(program.rtl_cycles * (1 + error))
        print(f"{program.name:24} {program.rtl_cycles:8} {simulated:9} {100 * error:+7.2f} %")
    print(f"{len(programs)} programs: {summary(found)}")


def errors_with(parameters: Mapping[str, int], programs: Sequence[corpus.Program]) -> list[float]:
    """Errors under other parameters; a plain function, for worker processes."""
    return errors(SimConfig(dict(parameters)), programs)


def print_cross_validation(config: SimConfig, processes: int) -> None:
    everything = [*corpus.programs(), *corpus.micro_loops()]
    splits = cross_validate(config.parameters, everything, errors_with, processes)
    print(f"{len(everything)} programs and loops, {len(splits)} random halves")
    for number, split in enumerate(splits):
        print(f"split {number}: fitted half {summary(split.on_fitted_half)}", end="   ")
        print(f"other half {summary(split.on_other_half)}")
    print(f"all other halves: {summary([e for split in splits for e in split.on_other_half])}")
    print("fitted values:")
    for name in STEPS:
        values = ", ".join(str(split.fitted[name]) for split in splits)
        print(f"  {name:24} {config[name]:4}   {values}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--micro", action="store_true", help="the micro loops too")
    parser.add_argument("--ablations", action="store_true", help="change one rule at a time")
    parser.add_argument("--cv", action="store_true", help="fit on one half, report the other")
    parser.add_argument("--processes", type=int, default=2, help="for --cv")
    arguments = parser.parse_args()
    config = load_config(Path(tilewright.targets.gemmini.__file__).parent / "target.toml")
    programs = corpus.programs()
    print_table(config, programs)
    if arguments.micro:
        print_table(config, corpus.micro_loops())
    if arguments.ablations:
        for what, changes in ABLATIONS.items():
            changed = SimConfig({**config.parameters, **changes})
            print(f"{what:46} {summary(errors(changed, programs))}")
    if arguments.cv:
        print_cross_validation(config, arguments.processes)


if __name__ == "__main__":
    main()
