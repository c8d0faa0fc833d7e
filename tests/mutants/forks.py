"""Runs tests in forks of this process, which has imported the packages that most tests import.

Each line of the input is, as JSON, a list of pytest's arguments, and the rule that the tests should
hold: tests with names like it run first. Each line is answered by two: the id of the process that
runs pytest, and its exit code. This program's arguments name two files: the output of pytest goes
to the first, and the tests that fail to the second, one a line. Modules of tilewright are imported
after the fork only, because their code changes between the runs.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

for package in (
    "hypothesis.strategies",
    "numpy",
    "sqlalchemy.orm",
    "tree_sitter_c",
    "xdist.plugin",
):
    importlib.import_module(package)


class Plugin:
    """Tests, and files of tests, that failed; the order in which tests run."""

    def __init__(self, rule: str) -> None:
        self.names: list[str] = []
        self._rule = _words(rule)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        shared = {item: _words(item.nodeid.partition("::")[2]) & self._rule for item in items}
        counts = Counter(word for words in shared.values() for word in words)
        items.sort(key=lambda item: -sum(1 / counts[word] for word in shared[item]))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._add(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._add(report)

    def _add(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed and report.nodeid not in self.names:
            self.names.append(report.nodeid)


def _words(text: str) -> set[str]:
    """The words of a text, without their endings."""
    return {word[:5] for word in re.findall("[a-z]{4,}", text.lower())}


def main() -> None:
    """Answer each line of the input."""
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _test(*json.loads(line), *sys.argv[1:])
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _test(arguments: list[str], rule: str, said: str, failed: str) -> None:
    """Run pytest in a session of its own, and end this process."""
    code = 1
    try:
        os.setsid()
        _open_as(os.devnull, os.O_RDONLY, 0)
        _open_as(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 1, 2)
        plugin = Plugin(rule)
        code = pytest.main(arguments, [plugin])
        Path(failed).write_text("\n".join(plugin.names), encoding="utf-8")
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
