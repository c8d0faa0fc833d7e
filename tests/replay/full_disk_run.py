"""Fills the disk of a search at random moments: full_disk_run.py FOLDER PLUGINS.

`unshare --mount` must start this script, because it mounts a small disk for the project in FOLDER.
After each failure of the search, the script frees space and starts the search again. The script
prints the number of failures.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import cluster_digits

DISK_BYTES = 64 << 20
FAILURES = 3
MESSAGE = "Free some space"


def fill(disk: Path) -> None:
    """Write a file until the disk has no space left."""
    with (disk / "filler").open("wb", buffering=0) as filler:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while filler.write(bytes(size)):
                    pass
            except OSError:
                continue


def start(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*cluster_digits.OPTIMIZE, "--project", str(folder / "project"), "--executor", "local"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def main(folder: Path, plugins: Path) -> None:
    disk = folder / "project"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(disk)]
    subprocess.run(mount, check=True)
    rng, failures = random.Random(0), 0
    search = start(folder)
    while True:
        due = len(cluster_digits.evaluated(plugins)) + rng.randint(5, 40)
        while search.poll() is None and len(cluster_digits.evaluated(plugins)) < due:
            time.sleep(0.01)
        if failures < FAILURES and search.poll() is None:
            fill(disk)
        _, errors = search.communicate()
        (disk / "filler").unlink(missing_ok=True)
        if search.returncode == 0:
            break
        assert search.returncode == 2, errors
        assert MESSAGE in errors, errors
        assert "Traceback" not in errors, errors
        failures += 1
        assert failures <= FAILURES, errors
        search = start(folder)
    subprocess.run(["cp", "-r", str(disk), str(folder / "copy")], check=True)
    print(failures)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
