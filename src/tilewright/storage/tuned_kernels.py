"""The best kernels of tuning runs on GPUs, with which searches compare their own kernels."""

from __future__ import annotations

import math
from dataclasses import asdict

from sqlalchemy import Connection, delete, select

from tilewright.core.tuning_records import TunedKernel
from tilewright.storage.rows import record_of, unreadable
from tilewright.storage.schema import tuned_kernels


def store_kernel(connection: Connection, kernel: TunedKernel) -> None:
    """Store the best kernel of a run, in place of its earlier one."""
    values = asdict(kernel)
    values["tuning_id"] = values.pop("run_id")
    connection.execute(delete(tuned_kernels).where(tuned_kernels.c.tuning_id == kernel.run_id))
    connection.execute(tuned_kernels.insert().values(values))


def stored_kernels(connection: Connection, workload: str, device: str) -> list[TunedKernel]:
    """For each method of search, the newest kernel of the runs with the most trials."""
    wanted = select(tuned_kernels).where(
        tuned_kernels.c.workload == workload, tuned_kernels.c.device == device
    )
    most: dict[str, TunedKernel] = {}
    for row in connection.execute(wanted.order_by(tuned_kernels.c.trials, tuned_kernels.c.number)):
        values = dict(row._mapping)
        values["run_id"] = values.pop("tuning_id")
        del values["number"]
        kernel = record_of(TunedKernel, values)
        if not kernel.source or not 0 < kernel.seconds < math.inf or kernel.trials < 1:
            raise unreadable("a tuned kernel has no text, no time or no trials")
        most[kernel.method] = kernel
    return sorted(most.values(), key=lambda kernel: kernel.name)
