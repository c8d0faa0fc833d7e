"""SqlStorage: the contract of its role on SQLite."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.storage.project import open_project
from tilewright.testing.storage import OpenStorage, StorageContract


class TestSqlStorageContract(StorageContract):
    @pytest.fixture
    def open_storage(self, tmp_path: Path) -> OpenStorage:
        return lambda: open_project(tmp_path)
