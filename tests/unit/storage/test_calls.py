"""Calls to models in the project database."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tilewright.core.records import CallRecord, RunRecord
from tilewright.core.roles import CallStore
from tilewright.storage.project import open_calls, open_project

CALL = CallRecord("run", "key", "openai/a", "plan")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    storage = open_project(tmp_path)
    for run_id in ("run", "other"):
        storage.create_run(RunRecord(run_id, "t", "g", {}, {}, "2026-11-21"))
    storage.close()
    return tmp_path


@pytest.fixture
def store(project: Path) -> Iterator[CallStore]:
    opened = open_calls(project)
    yield opened
    opened.close()


def test_an_intent_is_there_before_its_reply(store: CallStore, project: Path) -> None:
    store.intend(CALL, {"question": 1})
    again = open_calls(project)
    assert again.calls("run") == [CALL]
    assert again.reply("key") is None
    again.close()


def test_a_reply_answers_the_same_call_of_any_run(store: CallStore) -> None:
    store.intend(CALL, {"question": 1})
    finished = replace(CALL, state="replied", usd=0.5, input_tokens=7, counted_tokens=9)
    store.finish(finished, {"text": "yes"})
    assert store.reply("key") == {"text": "yes"}
    assert store.reply("ke") is None
    assert store.calls("run") == [finished]
    assert store.calls("other") == []
    assert store.exchanges("run") == [("key", {"question": 1}, {"text": "yes"})]


def test_a_failed_call_may_be_intended_again(store: CallStore) -> None:
    store.intend(CALL, {})
    store.finish(replace(CALL, state="failed", note="no key"), None)
    assert store.reply("key") is None
    assert store.exchanges("run") == []
    store.intend(CALL, {})
    assert store.calls("run") == [CALL]


def test_runs_keep_their_own_rows(store: CallStore) -> None:
    store.intend(CALL, {})
    store.finish(replace(CALL, state="replied"), {"text": "a"})
    mine = replace(CALL, run_id="other", cached=True, state="replied")
    store.intend(mine, {})
    store.finish(mine, {"text": "a"})
    store.annotate("other", "key", "no_code")
    assert store.calls("run")[0].note == ""
    assert store.calls("other") == [replace(mine, note="no_code")]
