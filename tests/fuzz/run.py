"""Fuzzes the co-simulator's C++ core, and what reads replies, bundles and folders of strangers.

python tests/fuzz/run.py --seconds 1800 [--config int8|fp32] [--corpus FOLDER] [--save]
python tests/fuzz/run.py --runs 4000 --seed 1 [--config int8|fp32]
python tests/fuzz/run.py --target replies|bundles|folders --seconds 600 [--seed N]

The first two are under AddressSanitizer and UBSan, with clang's libFuzzer; the third is readers.py.
The second tries the same inputs each time, so that what it says depends on the source only.

Seconds are of CPU time, so that a busy machine fuzzes no less. Inputs are ELF images, machine code
and command streams; the corpus starts from the prebuilt RTL programs and from what earlier runs
found (corpus-CONFIG.tar.xz, which --save writes: the fewest inputs that reach the same code). A
crash, an access out of bounds or a hang ends it with status 1 and leaves the input in the current
folder. What an input may do is bounded by instructions, which take well under a second; the time
after which one counts as hanging is long because it is wall time. Needs clang++ with its fuzzer
runtime (Debian: apt-get install clang libclang-rt-dev llvm).
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import readers

from tilewright.targets.gemmini.parameters import load_config

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "src/tilewright/targets/gemmini"
CONFIGS = {"int8": TARGET / "target.toml", "fp32": TARGET / "fp32-4x4.toml"}
HANG_S = 300  # wall seconds
LEAST_ROUND_S = 30  # of wall time; every round reads the corpus first
FLAGS = ("-std=gnu++20", "-O1", "-g", "-fsanitize=fuzzer,address,undefined")


def main() -> int:
    summary = (__doc__ or "").split("\n", maxsplit=1)[0]
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--config", choices=CONFIGS, default="int8")
    parser.add_argument("--corpus", type=Path, help="kept between runs; default: a temporary one")
    parser.add_argument("--target", choices=("cosim", *readers.TARGETS), default="cosim")
    parser.add_argument("--runs", type=int, help="inputs to try, instead of --seconds; cosim only")
    parser.add_argument("--seed", type=int, default=0, help="of the mutations; cosim: 0 is random")
    parser.add_argument("--save", action="store_true", help="keep what was found for later runs")
    options = parser.parse_args()
    if options.target != "cosim":
        return readers.fuzz(options.target, options.seconds, options.seed)
    compiler = shutil.which("clang++")
    if compiler is None:
        print("fuzz: clang++ is not on PATH: apt-get install clang libclang-rt-dev llvm")
        return 2
    with tempfile.TemporaryDirectory(prefix="tilewright-fuzz-") as temporary:
        folder = Path(temporary)
        fuzzer = build(compiler, folder)
        corpus = options.corpus or folder / "corpus"
        corpus.mkdir(parents=True, exist_ok=True)
        fill(corpus, options.config)
        parameters = folder / "parameters.txt"
        config = load_config(CONFIGS[options.config])
        parameters.write_text("".join(f"{k} {v}\n" for k, v in config.parameters.items()))
        command = [str(fuzzer), str(corpus), f"-timeout={HANG_S}", "-max_len=40000"]
        command += ["-rss_limit_mb=4096", "-print_final_stats=1", "-verbosity=1"]
        environment = {"COSIM_FUZZ_CONFIG": str(parameters), "PATH": "/usr/bin:/bin"}
        environment["UBSAN_OPTIONS"] = "halt_on_error=1:print_stacktrace=1"
        command += [f"-seed={options.seed}"]
        status, start = 0, children_cpu_s()
        if options.runs is not None:
            round_ = [*command, f"-runs={options.runs}"]
            status = subprocess.run(round_, env=environment, check=False).returncode
            options.seconds = 0
        while status == 0 and (left := options.seconds - (children_cpu_s() - start)) > 0:
            round_ = [*command, f"-max_total_time={max(LEAST_ROUND_S, int(left))}"]
            status = subprocess.run(round_, env=environment, check=False).returncode
        used = children_cpu_s() - start
        if options.save and status == 0:
            save(fuzzer, corpus, folder / "fewest", environment, options.config)
    print(f"fuzz: {used:.0f} s of CPU time, {options.config}, load {os.getloadavg()[0]:.1f}")
    print("fuzz: no finding" if status == 0 else "fuzz: the input above is a finding")
    return 0 if status == 0 else 1


def children_cpu_s() -> float:
    """CPU seconds of all processes that were started and have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def build(compiler: str, folder: Path) -> Path:
    """The fuzzer's binary."""
    sources = sorted((TARGET / "sim/cpp").rglob("*.cpp"))
    sources = [s for s in sources if s.name != "bindings.cpp"]
    fuzzer = folder / "cosim_fuzzer"
    harness = Path(__file__).with_name("cosim_fuzzer.cpp")
    command = [compiler, *FLAGS, f"-I{TARGET / 'sim/cpp'}", "-o", str(fuzzer)]
    subprocess.run([*command, str(harness), *map(str, sources)], check=True)
    return fuzzer


def fill(corpus: Path, config: str) -> None:
    """What earlier runs found; every prebuilt program for both ways of running it; a stream."""
    if archive(config).exists():
        with tarfile.open(archive(config)) as kept:
            for entry in kept:
                if file := kept.extractfile(entry):
                    (corpus / Path(entry.name).name).write_bytes(file.read())
    for path, data in seeds():
        (corpus / path).write_bytes(data)


def seeds() -> Iterator[tuple[str, bytes]]:
    """Names and inputs that need no keeping."""
    for elf in sorted((ROOT / "tests/target/gemmini_rtl/elf").glob("*.elf")):
        for options in (0, 4):
            yield f"{elf.stem}-{options}", bytes([0, options]) + elf.read_bytes()
    yield "stream", bytes([2, 0]) + bytes(range(256)) * 4


def save(
    fuzzer: Path, corpus: Path, fewest: Path, environment: dict[str, str], config: str
) -> None:
    """Archive the fewest inputs that reach all that the corpus reaches, beside the seeds."""
    fewest.mkdir()
    for path, data in seeds():
        (fewest / path).write_bytes(data)
    command = [str(fuzzer), "-merge=1", f"-timeout={HANG_S}", str(fewest), str(corpus)]
    subprocess.run(command, env=environment, check=True)
    known = {path for path, _ in seeds()}
    with tarfile.open(archive(config), "w:xz") as kept:
        for path in sorted(fewest.iterdir()):
            if path.name not in known:
                entry = tarfile.TarInfo(path.name)  # without times and owners: equal bytes
                entry.size = path.stat().st_size
                with path.open("rb") as file:
                    kept.addfile(entry, file)


def archive(config: str) -> Path:
    """Where inputs are kept between runs."""
    return Path(__file__).with_name(f"corpus-{config}.tar.xz")


if __name__ == "__main__":
    sys.exit(main())
