"""Constructs the proposer that calls a run's models, and reads their stored calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from tilewright.agents.names import is_agent_name
from tilewright.core.config import Settings
from tilewright.core.records import Brief, CallRecord, Candidate, Failed, RunRecord, Trial
from tilewright.core.roles import CallStore, Storage
from tilewright.core.run_notes import Closed, Prices, Replayed, Shares
from tilewright.core.tasks import OpenTask
from tilewright.core.transcripts import Transcript
from tilewright.proposers.applicable import applicable
from tilewright.proposers.llm.allocation import AdaptiveShares
from tilewright.proposers.llm.attempts import Notes
from tilewright.proposers.llm.branches import Branches
from tilewright.proposers.llm.dispatch import ProcessTransport
from tilewright.proposers.llm.forecast import forecast
from tilewright.proposers.llm.ledger import Ledger
from tilewright.proposers.llm.models import is_model_name, parse_model
from tilewright.proposers.llm.prices import Price, from_snapshot, snapshot
from tilewright.proposers.llm.probe import require_address
from tilewright.proposers.llm.prompts.render import Prompts
from tilewright.proposers.llm.proposer import LLMProposer
from tilewright.proposers.llm.recording import Recording
from tilewright.proposers.llm.retry import Backoff
from tilewright.proposers.llm.setup import (
    check_model,
    create_llm_proposer,
    prices_of,
    require_prices,
)
from tilewright.tools.proposal import Compiler
from tilewright.tools.transcripts import transcripts
from tilewright.tools.turns import Turns, turn_sizes


class Models:
    """The models of a run, which are checked before the search. It may be empty."""

    def __init__(
        self,
        settings: Settings,
        project: Path,
        replay: Path | None = None,
        strict_replay: bool = False,
    ) -> None:
        proposers = [name for name in settings.proposers if not is_agent_name(name)]
        self.names = tuple(name for name in proposers if is_model_name(name))
        self.others = tuple(name for name in proposers if name not in self.names)
        self.asked = self.names[:1] if "ensemble" in settings.without else self.names
        self._settings = settings
        self._project = project
        self._replay = Recording(replay, strict_replay) if replay is not None else None
        if self._replay is not None:
            self._replay.require(self.names)
        else:
            for name in self.names:
                check_model(parse_model(name))
                require_address(parse_model(name))
            if not settings.allow_unpriced:
                require_prices(prices_of(self.names), settings.budget)

    @property
    def store(self) -> Path:
        """The folder of the project's database and spool."""
        from tilewright.storage.project import FOLDER

        return (self._project / FOLDER).resolve()

    def create_proposer(
        self,
        storage: Storage,
        run: RunRecord,
        stack: ExitStack,
        on_call: Callable[[CallRecord], None],
        builds: Compiler,
        notes: Notes | None = None,
    ) -> tuple[LLMProposer, Ledger]:
        """The proposer, and the account of its cost; `stack` ends their calls.

        `builds` builds kernels for models that work in several turns; `notes` returns the
        compiler's notes on a kernel, and is None if there are none.
        """
        from tilewright.storage.project import open_calls, spool_folder

        settings = self._settings
        store = stack.enter_context(closing(open_calls(self._project)))
        if self._replay is not None:
            stack.callback(self._note_replay, storage, run.id, self._replay)
        prices = self._prices(storage, run)
        transport = self._replay or ProcessTransport(spool_folder(self._project, run.id), Backoff())
        stack.callback(transport.close)
        return create_llm_proposer(
            self.asked,
            transport=transport,
            store=store,
            run_id=run.id,
            budget=settings.budget,
            prices=prices,
            without=settings.without,
            edits=settings.edits,
            templates=settings.templates,
            shares=self._shares(storage, run, store, prices),
            branches=_branches(storage, run.id),
            applicable=applicable,
            notes=notes,
            on_call=on_call,
            turns=partial(
                Turns,
                most=settings.turns_taken,
                builds=builds,
                versions=run.versions,
                share=settings.proposal_share(settings.plans * settings.implementations),
                budget=settings.max_evaluations,
            )
            if settings.turns_taken > 1
            else None,
        )

    def forecast(
        self, opened: OpenTask, storage: Storage, run: RunRecord
    ) -> tuple[int, int, float | None]:
        """Upper bounds on the calls, tokens and dollars of the run's models; None if unknown."""
        target, settings = opened.target.brief(), self._settings
        brief = Brief(opened.task.workload, target, target.menu, 1, settings.iterations)
        return forecast(
            self.asked,
            self._prices(storage, run),
            Prompts(settings.without, settings.edits, applicable, templates=settings.templates),
            brief,
            Trial(0, 0, Candidate(opened.task.start), Failed("measure", "timeout", "")),
            settings,
            turn_sizes(),
        )

    def _note_replay(self, storage: Storage, run_id: str, replay: Recording) -> None:
        storage.keep(run_id, Replayed(replay.calls, replay.differing))

    def _shares(
        self,
        storage: Storage,
        run: RunRecord,
        store: CallStore,
        prices: Mapping[str, Price | None],
    ) -> AdaptiveShares | None:
        """The object that divides the work by gain per dollar, if the settings select this."""
        if self._settings.allocation != "adaptive":
            return None
        return AdaptiveShares(
            self.asked,
            store=store,
            run_id=run.id,
            prices=prices,
            decided=stored_shares(storage, run.id),
            keep=lambda iteration, shares: storage.keep(run.id, Shares(iteration, tuple(shares))),
        )

    def _prices(self, storage: Storage, run: RunRecord) -> Mapping[str, Price | None]:
        """The prices that the run stored before its first call to a model."""
        for stored in storage.kept(run.id, Prices):
            return from_snapshot(stored)
        taken = self._replay.prices if self._replay is not None else None
        prices = taken or snapshot(prices_of(self.names))
        storage.keep(run.id, prices)
        return from_snapshot(prices)


def _branches(storage: Storage, run_id: str) -> Branches:
    """The kernels for which a run's models found no option worthwhile, with the iteration of this
    answer.
    """
    return Branches(
        {note.candidate: note.iteration for note in storage.kept(run_id, Closed)},
        lambda candidate, iteration: storage.keep(run_id, Closed(candidate, iteration)),
    )


def stored_shares(storage: Storage, run_id: str) -> dict[int, tuple[float, ...]]:
    """The shares of a run's models for each iteration, in the order of the models; empty if they
    are equal.
    """
    return {note.iteration: note.shares for note in storage.kept(run_id, Shares)}


def replayed(storage: Storage, run_id: str) -> Replayed | None:
    """The number of calls that the run's last session answered from a recording, if it did."""
    found = storage.kept(run_id, Replayed)
    return found[-1] if found else None


def recording(run_id: str, *, project: Path) -> str:
    """All calls to models of a run as text that `optimize(replay=...)` reads back."""
    from tilewright.proposers.llm.recording import write_recording
    from tilewright.storage.project import open_calls, open_project

    with ExitStack() as stack:
        storage = stack.enter_context(closing(open_project(project, create=False)))
        calls = stack.enter_context(closing(open_calls(project)))
        prices = storage.kept(run_id, Prices)
        return write_recording(prices[0] if prices else None, calls.exchanges(run_id))


def model_calls(run_id: str, *, project: Path) -> list[CallRecord]:
    """A run's calls to models, in the order in which they were made."""
    from tilewright.storage.project import open_calls

    with closing(open_calls(project)) as calls:
        return calls.calls(run_id)


def turns_taken(run_id: str, trials: Sequence[Trial], *, project: Path) -> list[Transcript]:
    """The transcripts of a run's proposals in turns; empty if proposals have only one turn."""
    from tilewright.storage.project import open_calls

    with closing(open_calls(project)) as calls:
        records = calls.calls(run_id)
        if not any(record.phase.startswith("turn ") for record in records):
            return []
        return transcripts(calls.exchanges(run_id), records, trials)
