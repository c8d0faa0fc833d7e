"""Measures the cost of starting the command and of installing it.

    python benchmarks/startup.py             CPU seconds of `tilewright --help`
    python benchmarks/startup.py --install   and size and number of packages of a core install (uv)

`tilewright --help` is timed in turn with two applications of one command that does nothing. One
turns typer's rich output off, as tilewright does; the other uses typer's defaults, which import
rich. The goal of 1.2 is reached relative to the second, which is what `typer.Typer()` gives, but
not relative to the first. The printed numbers are medians of pairs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAIRS = 11
PLAIN = "app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)"
DEFAULT = "app = typer.Typer()"
BARE = """
import typer
{app}
@app.command()
def command(name: str = "x") -> None:
    pass
app()
"""
MOST_MB, MOST_PACKAGES = 110, 25


def cpu_s(command: list[str]) -> float:
    """CPU seconds of a command that prints its help."""
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return (
        after.children_user + after.children_system - before.children_user - before.children_system
    )


def compare() -> None:
    """CPU seconds of the help of tilewright and of bare applications, in turn."""
    ours = [sys.executable, "-c", "from tilewright.cli.main import main; main()", "--help"]
    bare = {
        "without rich": [sys.executable, "-c", BARE.format(app=PLAIN), "--help"],
        "typer's defaults": [sys.executable, "-c", BARE.format(app=DEFAULT), "--help"],
    }
    for command in (ours, *bare.values()):  # files into the cache, once
        cpu_s(command)
    for name, command in bare.items():
        pairs = [(cpu_s(ours), cpu_s(command)) for _ in range(PAIRS)]
        ratio = statistics.median(a / b for a, b in pairs)
        mine, other = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
        print(
            f"tilewright --help {mine * 1e3:.0f} ms of CPU, bare application ({name}) "
            f"{other * 1e3:.0f} ms: {ratio:.2f}x (median of {PAIRS} pairs)"
        )


def install() -> None:
    """Size and number of packages of an environment that holds tilewright without extras."""
    with tempfile.TemporaryDirectory() as scratch:
        python = f"{scratch}/venv/bin/python"
        subprocess.run(
            ["uv", "venv", "-q", "--python", sys.executable, f"{scratch}/venv"], check=True
        )
        command = [
            "uv",
            "pip",
            "install",
            "-q",
            "--link-mode",
            "copy",
            "--python",
            python,
            str(ROOT),
        ]
        subprocess.run(command, check=True)
        (packages,) = Path(scratch, "venv", "lib").glob("python*/site-packages")
        sizes: dict[str, int] = {}
        for file in packages.rglob("*"):
            if file.is_file():
                top = file.relative_to(packages).parts[0]
                sizes[top] = sizes.get(top, 0) + file.stat().st_size
        count = len(list(packages.glob("*.dist-info")))
        print(
            f"core install: {sum(sizes.values()) / 1e6:.1f} MB (at most {MOST_MB}), "
            f"{count} packages (at most {MOST_PACKAGES}); the largest:"
        )
        for name in sorted(sizes, key=lambda name: -sizes[name])[:8]:
            print(f"  {sizes[name] / 1e6:6.1f} MB  {name}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--install", action="store_true", help="also measure a core install")
    wanted = parser.parse_args()
    compare()
    if wanted.install:
        install()
