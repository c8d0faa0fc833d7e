"""The recipe of two machines that are network namespaces, with TLS, runs a search as one machine
does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from toy_project import recorded

from tilewright.targets.gemmini.toolchain import find_gcc, find_zig

pytest.importorskip("distributed", reason="needs dask.distributed: install the extra cluster")

RECIPE = Path(__file__).parents[2] / "examples" / "cluster" / "namespaces.sh"
SEARCH = (
    "tilewright optimize gemmini:gemm-16x16x16 --budget '6 evaluations' --seed 3 --input-seed 1"
)


def can_make_networks() -> bool:
    """Whether this process may create network namespaces."""
    if os.geteuid() or not shutil.which("ip") or not shutil.which("openssl"):
        return False
    name = f"tilewright-test-{os.getpid()}"
    added = subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode == 0
    subprocess.run(["ip", "netns", "del", name], capture_output=True)
    return added


def done(*command: str) -> str:
    """What a command prints; it must succeed."""
    own = str(Path(sys.executable).parent)
    path = f"{own}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PATH": path}
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.slow
@pytest.mark.toolchain
@pytest.mark.skipif(find_gcc() is None and find_zig() is None, reason="no RISC-V cross compiler")
@pytest.mark.skipif(not can_make_networks(), reason="needs root, ip and network namespaces")
def test_two_machines_in_namespaces_give_the_run_of_one(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    inside = f"{SEARCH} --project {there} --executor dask://$SCHEDULER"
    status = "tilewright cluster status $SCHEDULER"
    printed = done("sh", str(RECIPE), "sh", "-ec", f"{inside}; {status}")
    done("sh", "-ec", f"{SEARCH} --project {here}")
    assert recorded(there) == recorded(here)
    assert "10.77.0.11" in printed
    assert "10.77.0.12" in printed
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    assert "tilewright1" not in left
    assert "tilewright2" not in left
