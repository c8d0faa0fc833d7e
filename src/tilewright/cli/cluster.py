"""`tilewright cluster ...`: starts the scheduler of a cluster and the workers that evaluate kernels
for searches on other machines, and lists the workers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.options import Json, NoColor, Port, UnusedProject
from tilewright.cli.output import check_outputs, write_json

app = typer.Typer(help="Evaluate candidates on many machines (docs/cluster.md).")

Scheduler = Annotated[
    str,
    typer.Argument(metavar="HOST:PORT", help="Address that the scheduler prints when it starts."),
]


@app.command("scheduler")
def scheduler(
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            metavar="HOST",
            help="Address on which the scheduler listens; by default localhost, or all addresses "
            "if TLS certificates are configured.",
        ),
    ] = None,
    port: Port = 8786,
    project: UnusedProject = Path(),
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Run the scheduler of a cluster until Ctrl-C.

    The scheduler distributes the candidates of all searches to the workers that connect to it. The
    scheduler uses TLS if Dask's configuration names certificates (docs/cluster.md). When the
    scheduler starts, it writes its address to the file that --json names.
    """
    from tilewright.cli.console import say
    from tilewright.cluster.schedulers import serve_scheduler

    def show(address: str) -> None:
        write_json(json, {"scheduler": address})
        say(f"scheduler at {address}; Ctrl-C ends it")

    check_outputs(json=json)
    serve_scheduler(host, port, show, say)


@app.command("worker")
def worker(
    scheduler: Scheduler,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            metavar="N",
            min=1,
            help="Number of worker processes; by default one per core.",
        ),
    ] = None,
    project: UnusedProject = Path(),
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Evaluate candidates on this machine for a cluster.

    The worker reports to the scheduler which targets and versions this machine has, and then
    evaluates candidates until Ctrl-C. If one of its processes ends, the worker starts another one.
    If the scheduler becomes unavailable, the worker reconnects later. When the worker starts, it
    writes the targets and versions to the file that --json names.
    """
    from tilewright.cli.console import say
    from tilewright.cluster.address import parse_address
    from tilewright.cluster.local_workers import serve
    from tilewright.cluster.resources import offered
    from tilewright.cluster.settings import require_distributed, url
    from tilewright.executors import usable_cores

    check_outputs(json=json)
    require_distributed()
    count, offers = usable_cores() if jobs is None else jobs, offered()
    address = url(parse_address(scheduler), "worker")
    write_json(json, {"scheduler": address, "jobs": count, "offers": offers})
    serve(address, count, offers, say)


@app.command("status")
def status(
    scheduler: Scheduler,
    project: UnusedProject = Path(),
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Show a cluster's workers and their targets.

    The command also lists the versions that differ from those of this machine.
    """
    from rich.table import Table

    from tilewright.cli.console import results, say
    from tilewright.cluster.address import parse_address
    from tilewright.cluster.status import read_hosts

    check_outputs(json=json)
    found = read_hosts(parse_address(scheduler))
    table = Table(
        "host",
        "workers",
        "busy",
        "offers",
        "versions that differ from those of this machine",
        box=None,
    )
    for row in found:
        differences = [f"{d.target}: {d.name} {d.there}, here {d.here}" for d in row.differences]
        offers, differing = ", ".join(row.offers), "\n".join(differences)
        table.add_row(row.host, str(row.workers), str(row.busy), offers, differing)
    if found:
        results().print(table)
    else:
        say(f"no worker is connected to the scheduler at {scheduler}")
    write_json(json, {"hosts": [row.plain() for row in found]})
