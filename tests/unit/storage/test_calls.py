"""Calls to models in the project database keep the contract of call stores."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tilewright.core.records import RunRecord
from tilewright.storage.project import open_calls, open_project
from tilewright.testing.calls import CallStoreContract, OpenStore


class TestCallsInTheDatabase(CallStoreContract):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> OpenStore:
        storage = open_project(tmp_path)
        for run_id in ("run", "other"):
            storage.create_run(RunRecord(run_id, "t", "g", {}, {}, "2026-11-21"))
        storage.close()
        return partial(open_calls, tmp_path)
