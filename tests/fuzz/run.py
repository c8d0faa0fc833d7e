"""Fuzzes the co-simulator's C++ core under AddressSanitizer and UBSan, with clang's libFuzzer.

python tests/fuzz/run.py --seconds 1800 [--config int8|fp32] [--corpus FOLDER]

Seconds are of CPU time, so that a busy machine fuzzes no less. Inputs are ELF images, machine code
and command streams; the corpus starts from the prebuilt RTL programs. A crash, an access out of
bounds or a hang ends it with status 1 and leaves the input in the current folder. What an input
may do is bounded by instructions, which take well under a second; the time after which one counts
as hanging is long because it is wall time. Needs clang++ with its fuzzer runtime
(Debian: apt-get install clang libclang-rt-14-dev llvm-14).
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tilewright.targets.gemmini.parameters import load_config

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "src/tilewright/targets/gemmini"
CONFIGS = {"int8": TARGET / "target.toml", "fp32": TARGET / "fp32-4x4.toml"}
HANG_S = 300  # wall seconds
FLAGS = ("-std=gnu++20", "-O1", "-g", "-fsanitize=fuzzer,address,undefined")


def main() -> int:
    summary = (__doc__ or "").split("\n", maxsplit=1)[0]
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--config", choices=CONFIGS, default="int8")
    parser.add_argument("--corpus", type=Path, help="kept between runs; default: a temporary one")
    options = parser.parse_args()
    compiler = shutil.which("clang++")
    if compiler is None:
        print("fuzz: clang++ is not on PATH: apt-get install clang libclang-rt-14-dev llvm-14")
        return 2
    with tempfile.TemporaryDirectory(prefix="tilewright-fuzz-") as temporary:
        folder = Path(temporary)
        fuzzer = build(compiler, folder)
        corpus = options.corpus or folder / "corpus"
        corpus.mkdir(parents=True, exist_ok=True)
        fill(corpus)
        parameters = folder / "parameters.txt"
        config = load_config(CONFIGS[options.config])
        parameters.write_text("".join(f"{k} {v}\n" for k, v in config.parameters.items()))
        command = [str(fuzzer), str(corpus), f"-timeout={HANG_S}", "-max_len=40000"]
        command += ["-rss_limit_mb=4096", "-print_final_stats=1", "-verbosity=1"]
        environment = {"COSIM_FUZZ_CONFIG": str(parameters), "PATH": "/usr/bin:/bin"}
        environment["UBSAN_OPTIONS"] = "halt_on_error=1:print_stacktrace=1"
        status, start = 0, children_cpu_s()
        while status == 0 and (left := options.seconds - (children_cpu_s() - start)) > 0:
            round_ = [*command, f"-max_total_time={max(1, int(left))}"]
            status = subprocess.run(round_, env=environment, check=False).returncode
        used = children_cpu_s() - start
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


def fill(corpus: Path) -> None:
    """Seeds: every prebuilt program as an ELF file for both ways of running it, and a stream."""
    for elf in sorted((ROOT / "tests/target/gemmini_rtl/elf").glob("*.elf")):
        for options in (0, 4):
            (corpus / f"{elf.stem}-{options}").write_bytes(bytes([0, options]) + elf.read_bytes())
    (corpus / "stream").write_bytes(bytes([2, 0]) + bytes(range(256)) * 4)


if __name__ == "__main__":
    sys.exit(main())
