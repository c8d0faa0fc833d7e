"""Compares arms on the toy kernel in a process of its own: arguments FILE FOLDER DELAY_S LOG.

It prints the table without seconds. `LOG` is as that of `toy_run.py`.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from toy_run import enter

from tilewright.experiments.definition import read_experiment
from tilewright.experiments.output import table_csv
from tilewright.experiments.running import run_experiment
from tilewright.experiments.table import table


def main(file: str, folder: str, delay_s: str, log: str) -> None:
    enter(delay_s, log)
    found = read_experiment(file)
    rows = table(run_experiment(found, Path(folder)), found.baseline)
    print(table_csv([replace(row, seconds=0.0) for row in rows]))


if __name__ == "__main__":
    main(*sys.argv[1:])
