"""The parts of an experiment's file that may be started only with the user's consent.

The file may have been written by somebody else. It determines how a search works, and it may name
programs that would be started, folders that would be written to, and machines and addresses to
which keys would be sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tilewright.core.config import is_plain_proposer
from tilewright.core.errors import ConfigurationError
from tilewright.core.tasks import is_registered
from tilewright.core.text import plain_text, shortened
from tilewright.experiments.definition import Experiment

OPTION = "--trust-file"


def require_harmless(experiment: Experiment) -> None:
    """`ConfigurationError` that names what the file may not start without consent."""
    found = next(_beyond_a_search(experiment), None)
    if found is not None:
        what, name = found
        raise ConfigurationError(
            f"experiment {experiment.name}: the file names the {what} {plain_text(shortened(name))}"
            f", which would be used with your rights. Read the file, and if you trust it, give "
            f"{OPTION}."
        )


def _beyond_a_search(experiment: Experiment) -> Iterator[tuple[str, str]]:
    """Everything in the file that needs consent: what kind of thing it is, and its name."""
    for settings in experiment.arms.values():
        for proposer in settings.proposers:
            if not is_plain_proposer(proposer.partition("?")[0]):
                yield "program, folder or address", proposer
        if settings.host:
            yield "machine", settings.host
        if settings.allow_unpriced:
            yield "consent", "allow_unpriced"
    for workload in (*experiment.workloads, *experiment.sources.values()):
        if not is_registered(workload) and Path(workload).exists():
            yield "kernel folder or file", workload
