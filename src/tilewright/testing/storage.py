"""Contract suite of the `Storage` role.

Subclass `StorageContract` in a test module and define the fixture `open_storage`, which opens the
same storage each time it is called. Pytest collects the inherited tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from typing import TypeAlias

import pytest

from tilewright.core.errors import InternalError, UnknownNameError
from tilewright.core.records import (
    Baseline,
    Candidate,
    Check,
    Failed,
    History,
    Measured,
    Outcome,
    Plan,
    RunRecord,
    Trial,
    Verdict,
)
from tilewright.core.roles import Storage
from tilewright.core.run_notes import Baselines, Label, Prices, Rechecked, Shares

OpenStorage: TypeAlias = Callable[[], Storage]

MEASURED = Measured(
    latency=1234.0,
    unit="cycles",
    quantity="simulated",
    utilization=0.5,
    verdict=Verdict((Check(1, "full range"), Check(2, "sparse"))),
    breakdown={"cpu": 10.0},
    details={"instructions": 5.0},
    versions={"compiler": "gcc 12"},
    artifact_digest="ab" * 32,
    samples={"session 1 candidate": (1.5, 2.25)},
)
FAILED = Failed("check", "wrong_result", "C[0][1] is 3, expected 4\nhint: …", line=7)
BOUND = Failed("measure", "slower_than_limit", "stopped", bound=100.0)


def run_record(run_id: str = "run-1", **changes: object) -> RunRecord:
    """A run to store."""
    settings = {"seed": 1, "dropout": 0.7, "proposer": "toy", "max_wall_s": None}
    record = RunRecord(run_id, "toy:digits", "toy", settings, {"toy": "1"}, "2026-01-01T00:00:00")
    return replace(record, **changes)  # type: ignore[arg-type]


def trial(index: int, outcome: Outcome = MEASURED, source: str = "") -> Trial:
    """A trial whose source contains characters that text columns often store wrongly."""
    plan = Plan("parent", "unroll", "unroll j", "toy", {"factor": 4, "loop": "j"}, "cpu 10 %")
    text = source or f"/* kernel {index} */\r\n\tx = 'é'; // \u2028 \"quoted\"\n"
    candidate = Candidate(text, "parent" if index else None, plan if index else None, "toy")
    return Trial(index, index // 2, candidate, outcome, wall_s=0.25, cached=index % 2 == 1)


class StorageContract:
    """Tests that every storage must pass."""

    @pytest.fixture
    def open_storage(self) -> OpenStorage:
        """Opens the storage under test; every call opens the same data."""
        raise NotImplementedError

    @pytest.fixture
    def storage(self, open_storage: OpenStorage) -> Iterator[Storage]:
        """The storage under test, which is empty."""
        opened = open_storage()
        yield opened
        opened.close()

    def test_a_run_comes_back_equal(self, storage: Storage) -> None:
        """A run is read with the same fields and identity with which it was stored."""
        run = run_record()
        storage.create_run(run)
        assert storage.run("run-1") == run
        assert storage.run("run-1").identity == run.identity

    def test_runs_are_listed_newest_first(self, storage: Storage) -> None:
        """Runs are listed in the order of their creation, whatever their ids are."""
        for run_id in ("b", "c", "a"):
            storage.create_run(run_record(run_id))
        assert [r.id for r in storage.runs()] == ["a", "c", "b"]
        assert storage.run("latest").id == "a"

    def test_a_run_is_found_by_unique_prefix(self, storage: Storage) -> None:
        """An ambiguous, unknown or empty prefix is an error. A complete id is always accepted."""
        storage.create_run(run_record("abc1"))
        with pytest.raises(UnknownNameError):
            storage.run("")  # `runs delete ""` would be a mistake in a script
        for run_id in ("abd2", "abd22"):
            storage.create_run(run_record(run_id))
        assert storage.run("abc").id == "abc1"
        assert storage.run("abd2").id == "abd2"
        for name in ("ab", "x", "%", "a_c"):
            with pytest.raises(UnknownNameError):
                storage.run(name)

    def test_latest_of_nothing_is_an_error(self, storage: Storage) -> None:
        """An empty storage has no latest run."""
        assert storage.runs() == []
        with pytest.raises(UnknownNameError):
            storage.run("latest")

    def test_status_is_updated(self, storage: Storage) -> None:
        """Status, stop reason and wall time change; all other fields stay the same."""
        storage.create_run(run_record())
        storage.update_run("run-1", status="finished", stop_reason="done", wall_s=2.5)
        expected = run_record(status="finished", stop_reason="done", wall_s=2.5)
        assert storage.run("run-1") == expected

    def test_unfinished_finds_the_newest_of_the_same_identity(self, storage: Storage) -> None:
        """`unfinished` returns the newest unfinished run of an identity, and ignores finished runs
        and runs with other settings."""
        identity = run_record().identity
        assert storage.unfinished(identity) is None
        storage.create_run(run_record("old"))
        storage.create_run(run_record("new"))
        storage.create_run(run_record("other", settings={"seed": 2}))
        found = storage.unfinished(identity)
        assert found is not None
        assert found.id == "new"
        storage.update_run("new", status="finished", stop_reason="", wall_s=1.0)
        storage.update_run("old", status="interrupted", stop_reason="", wall_s=1.0)
        found = storage.unfinished(identity)
        assert found is not None
        assert found.id == "old"

    def test_trials_come_back_equal_and_in_order(self, storage: Storage) -> None:
        """Measured and failed trials of several runs are read with every field."""
        storage.create_run(run_record("a"))
        storage.create_run(run_record("b"))
        outcomes: list[Outcome] = [MEASURED, FAILED, BOUND]
        trials = [trial(i, outcome) for i, outcome in enumerate(outcomes)]
        for one in trials:
            storage.append_trial("a", one)
        storage.append_trial("b", trials[0])
        assert list(storage.history("a")) == trials
        assert list(storage.history("b")) == trials[:1]
        assert list(storage.history("unknown")) == []

    @pytest.mark.parametrize("index", [0, 2])
    def test_a_trial_out_of_order_is_refused(self, storage: Storage, index: int) -> None:
        """A trial whose index is repeated or leaves a gap is refused."""
        storage.create_run(run_record())
        storage.append_trial("run-1", trial(0))
        with pytest.raises(InternalError):
            storage.append_trial("run-1", trial(index))
        assert len(storage.history("run-1")) == 1

    def test_a_trial_is_amended(self, storage: Storage) -> None:
        """A measurement that was refuted is replaced; the rest of the trial stays the same."""
        storage.create_run(run_record())
        storage.append_trial("run-1", trial(0))
        storage.amend_trial("run-1", 0, FAILED)
        assert list(storage.history("run-1")) == [replace(trial(0), outcome=FAILED)]
        assert storage.history("run-1").best is None
        with pytest.raises(InternalError):
            storage.amend_trial("run-1", 7, FAILED)

    def test_the_first_outcome_under_a_key_wins(self, storage: Storage) -> None:
        """Outcomes are read as they were stored, and a later outcome does not overwrite an earlier
        one."""
        assert storage.cached_outcome("key") is None
        storage.store_outcome("key", MEASURED)
        storage.store_outcome("key", FAILED)
        storage.store_outcome("key", BOUND)
        assert storage.cached_outcome("key") == MEASURED
        assert storage.cached_outcome("ke") is None

    def test_a_bound_gives_way_to_more_knowledge(self, storage: Storage) -> None:
        """A bound is replaced by a higher bound or by a full outcome, never by less."""
        higher = replace(BOUND, bound=200.0)
        storage.store_outcome("key", BOUND)
        storage.store_outcome("key", higher)
        storage.store_outcome("key", BOUND)
        assert storage.cached_outcome("key") == higher
        storage.store_outcome("key", MEASURED)
        storage.store_outcome("key", replace(BOUND, bound=9999.0))
        assert storage.cached_outcome("key") == MEASURED

    def test_artifacts_are_stored_by_content(self, storage: Storage) -> None:
        """Equal bytes have the same digest. An artifact may be empty."""
        data = bytes(range(256)) * 100
        digest = storage.put_artifact(data, "binary")
        assert storage.put_artifact(data, "binary") == digest
        assert storage.artifact(digest) == data
        assert storage.artifact(storage.put_artifact(b"", "binary")) == b""
        with pytest.raises(UnknownNameError):
            storage.artifact("0" * 64)

    def test_events_come_back_in_order(self, storage: Storage) -> None:
        """Events are returned in their order, separately for each run."""
        storage.create_run(run_record("a"))
        storage.create_run(run_record("b"))
        storage.append_event("a", "started", {"process": 1})
        storage.append_event("b", "started", {"process": 2})
        storage.append_event("a", "stopped", {"reason": "done"})
        log = [(kind, data) for _, kind, data in storage.events("a")]
        assert log == [("started", {"process": 1}), ("stopped", {"reason": "done"})]
        times = [at for at, _, _ in storage.events("a")]
        assert times == sorted(times)

    def test_notes_come_back_equal_by_their_class(self, storage: Storage) -> None:
        """Notes are returned oldest first, for one run and one class, with the records they
        contain."""
        storage.create_run(run_record("a"))
        storage.create_run(run_record("b"))
        baselines = Baselines((Baseline("naive", "id", MEASURED), Baseline("library", "x", FAILED)))
        first = Rechecked("one", confirmed=False, refuted=MEASURED)
        second = Rechecked("two", confirmed=True)
        for note in (baselines, first, second, Shares(3, (0.25, 0.75))):
            storage.keep("a", note)
        storage.keep("b", Prices("table 1", {"openai/m": {"input": 1.5}, "command:x": None}))
        assert storage.kept("a", Baselines) == [baselines]
        assert storage.kept("a", Rechecked) == [first, second]
        assert storage.kept("a", Shares) == [Shares(3, (0.25, 0.75))]
        assert storage.kept("a", Prices) == []
        (prices,) = storage.kept("b", Prices)
        assert prices.usd_per_mtok == {"openai/m": {"input": 1.5}, "command:x": None}

    def test_a_deleted_run_is_gone_and_others_stay(self, storage: Storage) -> None:
        """Deleting a run deletes its trials, events, notes and sources. Cached outcomes stay,
        because all runs share them."""
        for name in ("run-1", "run-2"):
            storage.create_run(run_record(name))
            storage.append_trial(name, trial(0))
            storage.append_event(name, "started", {})
            storage.keep(name, Label(("tag",)))
        storage.append_trial("run-1", trial(1))
        own, shared = (sha256(trial(n).candidate.source.encode()).hexdigest() for n in (1, 0))
        storage.artifact(own)
        storage.store_outcome("key", FAILED)
        storage.delete_run("run-1")
        with pytest.raises(UnknownNameError):
            storage.artifact(own)
        storage.artifact(shared)
        assert [run.id for run in storage.runs()] == ["run-2"]
        assert len(storage.history("run-1")) == 0
        assert storage.events("run-1") == []
        assert storage.kept("run-1", Label) == []
        assert len(storage.history("run-2")) == 1
        assert storage.kept("run-2", Label) == [Label(("tag",))]
        assert storage.cached_outcome("key") == FAILED

    def test_everything_is_there_for_another_process(
        self, storage: Storage, open_storage: OpenStorage
    ) -> None:
        """Data are visible to a second connection after the call that wrote them, before the first
        is closed."""
        storage.create_run(run_record())
        storage.append_trial("run-1", trial(0))
        storage.store_outcome("key", FAILED)
        digest = storage.put_artifact(b"data", "binary")
        storage.append_event("run-1", "started", {})
        second = open_storage()
        try:
            assert second.run("latest") == run_record()
            assert isinstance(second.history("run-1"), History)
            assert list(second.history("run-1")) == [trial(0)]
            assert second.cached_outcome("key") == FAILED
            assert second.artifact(digest) == b"data"
            assert len(second.events("run-1")) == 1
        finally:
            second.close()

    def test_closing_twice_is_harmless(self, storage: Storage) -> None:
        """`close` may be called more than once."""
        storage.close()
        storage.close()
