"""A disk that becomes full during a search: the search reports it, and can be continued."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import cluster_digits
import pytest
from full_disk_run import FAILURES
from toy_project import recorded

SCRIPT = Path(__file__).with_name("full_disk_run.py")
IN_NAMESPACE = ["unshare", "--map-root-user", "--mount"]


def cannot_mount() -> str:
    """Why no small disk can be mounted here; empty if it can."""
    try:
        command = [*IN_NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "unshare and mount are not installed"
    return f"no disk can be mounted in a user namespace: {found.stderr}" if found.returncode else ""


@pytest.mark.slow
@pytest.mark.skipif(bool(cannot_mount()), reason=cannot_mount() or "a disk can be mounted")
def test_a_search_continues_after_its_disk_was_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugins = tmp_path / "plugins"
    cluster_digits.write_entry_points(plugins)
    monkeypatch.setenv("PYTHONPATH", cluster_digits.import_path(plugins))
    undisturbed = tmp_path / "undisturbed"
    command = [*cluster_digits.OPTIMIZE, "--project", str(undisturbed), "--executor", "local"]
    subprocess.run(command, check=True, capture_output=True)
    alone = len(cluster_digits.evaluated(plugins))
    disturbed = [*IN_NAMESPACE, sys.executable, str(SCRIPT), str(tmp_path), str(plugins)]
    found = subprocess.run(disturbed, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert int(found.stdout) == FAILURES
    assert recorded(tmp_path / "copy") == recorded(undisturbed)
    repeated = len(cluster_digits.evaluated(plugins)) - 2 * alone
    assert repeated <= 2 * FAILURES * 2
