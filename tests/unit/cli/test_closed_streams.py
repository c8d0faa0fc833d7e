"""The command line with closed standard streams."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os, sys
for descriptor in {closed}:
    os.close(descriptor)
os.execv(sys.executable, [sys.executable, "-P", "-c", {then!r}])
"""
THEN = """
import os, sys
from tilewright.cli.main import main
try:
    main(["--no-such-option"])
except SystemExit:
    opened = os.open(os.devnull, os.O_RDONLY)
    os._exit(7 if opened > 2 and None not in (sys.stdin, sys.stdout, sys.stderr) else 8)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs os.execv of POSIX")
@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_no_file_takes_the_place_of_a_closed_stream(closed: tuple[int, ...]) -> None:
    command = [sys.executable, "-P", "-c", PROGRAM.format(closed=closed, then=THEN)]
    assert subprocess.run(command, check=False, timeout=100, capture_output=True).returncode == 7
