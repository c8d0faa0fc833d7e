"""`tilewright targets`: the accelerators there are."""

from __future__ import annotations

import typer

from tilewright.cli.options import NoColor


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("targets")(list_targets)


def list_targets(no_color: NoColor = False) -> None:
    """List the accelerators that kernels can be made for."""
    from rich.table import Table

    from tilewright.cli.console import results
    from tilewright.core.plugins import load_target, target_names

    table = Table("target", "ready", "optimisations", "versions", box=None, pad_edge=False)
    for name in target_names():
        target = load_target(name)
        ready = all(usable for _, usable, _ in target.doctor())
        versions = ", ".join(f"{k} {v}" for k, v in sorted(target.versions().items()))
        table.add_row(
            name, "yes" if ready else "see doctor", str(len(target.brief().menu)), versions
        )
    results().print(table)
