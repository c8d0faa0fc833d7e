"""Packs the files for a GPU machine without a network into parts that are small enough to transfer.

TVM, its foreign-function layer and xgboost are installed for the Python of that machine, without
files that tuning does not use. tilewright's source and these scripts are added, and everything is
compressed with xz and its x86 filter. Packing takes several minutes of CPU time, most of it for
TVM's compiler library. The dependencies (numpy, scipy, ml_dtypes, typing_extensions) are not
packed, because they are large: the machine's Python must contain them, and run.sh checks this first
(needs.py).

    python benchmarks/gpu/pack.py site.tar.xz [--python 3.12] [--part-mib 48]

Needs `uv`. The versions are those of the project's lock file.
"""

from __future__ import annotations

import argparse
import lzma
import shutil
import subprocess
import tarfile
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PART_MIB = 48
WANTED = ("apache-tvm", "apache-tvm-ffi", "xgboost-cpu")
# Sources, headers and front ends that compile or run nothing here.
UNUSED = (
    "tvm/3rdparty",
    "tvm/web",
    "tvm/src",
    "tvm/include",
    "tvm/cmake",
    "tvm_ffi/include",
    "tvm_ffi/3rdparty",
    "xgboost/testing",
)
BEST = 9 | lzma.PRESET_EXTREME


def requirements() -> list[str]:
    """The packages in `WANTED` as the lock file pins them; of several versions the smaller one."""
    packages = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    wanted = sorted((p["name"], p["version"]) for p in packages if p["name"] in WANTED)
    return [f"{name}=={version}" for name, version in dict(reversed(wanted)).items()]


def stage(folder: Path, python: str) -> None:
    """Install, prune and add this project."""
    subprocess.run(
        [
            *("uv", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)),
            *("--python-version", python, "--python-platform", "x86_64-manylinux_2_28"),
            *("--only-binary", ":all:", *requirements()),
        ],
        check=True,
    )
    for name in UNUSED:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for folder_of_junk in [*folder.rglob("__pycache__"), *folder.glob("*.dist-info/licenses")]:
        shutil.rmtree(folder_of_junk, ignore_errors=True)
    ignore = shutil.ignore_patterns("__pycache__", "*.cpp", "*.hpp", "*.so", "web")
    shutil.copytree(ROOT / "src" / "tilewright", folder / "tilewright", ignore=ignore)
    shutil.copytree(ROOT / "benchmarks" / "gpu", folder / "gpu", ignore=ignore)


def compress(folder: Path, file: Path, preset: int) -> None:
    """One archive, the largest files first so that like stands beside like."""
    filters = [
        {"id": lzma.FILTER_X86},
        {"id": lzma.FILTER_LZMA2, "preset": preset, "dict_size": 1 << 28},
    ]
    members = sorted(
        (path for path in folder.rglob("*") if path.is_file()),
        key=lambda path: (-path.stat().st_size if path.suffix == ".so" else 0, path.suffix, path),
    )
    with (
        lzma.open(file, "wb", format=lzma.FORMAT_XZ, filters=filters) as stream,
        tarfile.open(fileobj=stream, mode="w") as archive,
    ):
        for member in members:
            archive.add(member, arcname=str(member.relative_to(folder)))


def split(file: Path, part_bytes: int) -> list[Path]:
    """The file as FILE.1of2, FILE.2of2 and so on, none larger than `part_bytes`."""
    count = -(-file.stat().st_size // part_bytes)
    parts = [file.with_name(f"{file.name}.{n}of{count}") for n in range(1, count + 1)]
    with file.open("rb") as whole:
        for part in parts:
            part.write_bytes(whole.read(part_bytes))
    file.unlink()
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--python", default="3.12", help="the GPU machine's Python")
    parser.add_argument("--part-mib", type=int, default=PART_MIB, help="largest part")
    parser.add_argument("--keep", type=Path, help="keep the uncompressed folder here")
    parser.add_argument(
        "--preset", type=int, default=BEST, help="of xz; 0 is fast and far too large to carry"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tilewright-pack-") as name:
        folder = arguments.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        stage(folder, arguments.python)
        compress(folder, arguments.file, arguments.preset)
    for part in split(arguments.file, arguments.part_mib << 20):
        print(f"{part}: {part.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
