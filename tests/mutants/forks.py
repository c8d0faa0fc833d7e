"""Runs tests in forks of this process, which has imported the packages that most tests import.

Each line of the input is a list of pytest's arguments, as JSON. Each is answered by two lines: the
id of the process that runs pytest, and its exit code. This program's arguments name two files: the
output of pytest goes to the first, and the tests that fail to the second, one a line. Modules of
tilewright are imported after the fork only, because their code changes between the runs.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

import pytest

for package in ("hypothesis.strategies", "numpy", "sqlalchemy.orm"):
    importlib.import_module(package)


class Failures:
    """Tests, and files of tests, that failed."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._add(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._add(report)

    def _add(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed and report.nodeid not in self.names:
            self.names.append(report.nodeid)


def main() -> None:
    """Answer each line of the input."""
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _test(json.loads(line), *sys.argv[1:])
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _test(arguments: list[str], said: str, failed: str) -> None:
    """Run pytest in a session of its own, and end this process."""
    code = 1
    try:
        os.setsid()
        _open_as(os.devnull, os.O_RDONLY, 0)
        _open_as(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 1, 2)
        failures = Failures()
        code = pytest.main(arguments, [failures])
        Path(failed).write_text("\n".join(failures.names), encoding="utf-8")
        sys.stdout.flush()
    finally:
        os._exit(code)


def _open_as(path: str, flags: int, *numbers: int) -> None:
    """Open a file as these descriptors."""
    opened = os.open(path, flags, 0o600)
    for number in numbers:
        os.dup2(opened, number)
    os.close(opened)


if __name__ == "__main__":
    main()
