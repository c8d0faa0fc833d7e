"""The Gemmini co-simulator, which runs a compiled kernel, checks it, and counts its cycles.

A kernel is interpreted and never runs natively. It can access only the simulated memory.
"""

from tilewright.targets.gemmini.parameters import CONFIGURATIONS, SimConfig, load_config
from tilewright.targets.gemmini.sim.run import (
    MODEL_VERSION,
    BankLoss,
    Condition,
    Fault,
    Hashes,
    Hotspot,
    Region,
    SimResult,
    Unordered,
    run_kernel,
    run_program,
)

__all__ = [
    "CONFIGURATIONS",
    "MODEL_VERSION",
    "BankLoss",
    "Condition",
    "Fault",
    "Hashes",
    "Hotspot",
    "Region",
    "SimConfig",
    "SimResult",
    "Unordered",
    "load_config",
    "run_kernel",
    "run_program",
]
