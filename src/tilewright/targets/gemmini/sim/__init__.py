"""The Gemmini co-simulator: runs a compiled kernel, checks it and says how long it takes.

A kernel is interpreted, never run natively; it can reach only the memory it is given.
"""

from tilewright.targets.gemmini.parameters import CONFIGURATIONS, SimConfig, load_config
from tilewright.targets.gemmini.sim.run import (
    MODEL_VERSION,
    BankLoss,
    Fault,
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
    "Fault",
    "Hotspot",
    "Region",
    "SimConfig",
    "SimResult",
    "Unordered",
    "load_config",
    "run_kernel",
    "run_program",
]
