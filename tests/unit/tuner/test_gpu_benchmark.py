"""How the GPU comparison travels: packs, parts and needs, without a GPU or TVM."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks" / "gpu"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"gpu_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_a_pack_travels_in_parts_and_the_last_one_starts_the_work(tmp_path: Path) -> None:
    pack = load("pack")
    content = tmp_path / "content"
    (content / "gpu").mkdir(parents=True)
    # Stands in for the comparison: shows what it was called with, and that mock is in it.
    (content / "gpu" / "compare.py").write_text("import sys; print('called', *sys.argv[2:])")
    (content / "gpu" / "needs.py").write_text("")
    (content / "noise.so").write_bytes(os.urandom(4096))
    file = tmp_path / "site.tar.xz"
    pack.compress(content, file, preset=0)
    with tarfile.open(file) as archive:
        assert archive.getnames()[0] == "noise.so"
    parts = pack.split(file, 2048)
    assert len(parts) > 1
    environment = {
        **os.environ,
        "SITE": str(tmp_path / "site"),
        "PYTHON": sys.executable,
        "MOCK": "1",
    }
    said = [
        subprocess.run(
            ["bash", FOLDER / "run.sh", part, tmp_path / "out", "60", "--trials", "7"],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for part in parts
    ]
    assert all("bring the next" in text for text in said[:-1])
    assert "called --mock --target nvidia/h200" in said[-1]
    assert said[-1].rstrip().endswith("--trials 7")


def test_packages_that_are_not_packed_are_asked_for_before_all_else(tmp_path: Path) -> None:
    site = tmp_path / "site"
    shutil.copytree(FOLDER, site / "gpu")
    (site / ".complete").touch()
    bare = tmp_path / "python"
    # An interpreter without any installed package.
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    bare.chmod(0o755)
    environment = {**os.environ, "SITE": str(site), "PYTHON": str(bare)}
    command = ["bash", FOLDER / "run.sh", "site.tar.xz.1of1", tmp_path / "out"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    (sentence,) = done.stdout.splitlines()
    assert "lacks numpy, scipy, ml_dtypes, typing_extensions: the pack counts on" in sentence


def test_what_the_packed_packages_need_is_packed_or_asked_for() -> None:
    packages = tomllib.loads((FOLDER.parents[1] / "uv.lock").read_text())["package"]
    needs = load("needs").NEEDED
    packed = load("pack").WANTED
    required = {
        dependency["name"].replace("-", "_")
        for package in packages
        if package["name"] in packed
        for dependency in package.get("dependencies", ())
        if dependency["name"] not in packed
    }
    assert required == set(needs)


def test_run_sh_without_arguments_says_how_to_call_it() -> None:
    done = subprocess.run(["bash", FOLDER / "run.sh"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "run.sh PART OUT" in done.stdout


def test_a_file_that_is_no_part_of_a_pack_is_refused(tmp_path: Path) -> None:
    command = ["bash", FOLDER / "run.sh", tmp_path / "site.tar.xz", tmp_path / "out"]
    environment = {**os.environ, "SITE": str(tmp_path / "site")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert "is no part of a pack" in done.stdout
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize("name", ["apache-tvm", "apache-tvm-ffi", "xgboost-cpu"])
def test_the_pack_has_each_package_once_at_a_pinned_version(name: str) -> None:
    lines = [line for line in load("pack").requirements() if line.split("==")[0] == name]
    assert len(lines) == 1
