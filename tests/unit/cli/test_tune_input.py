"""What `tilewright tune` understands, and how it refuses what it does not. No TVM needed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from toy_cli import Cli

from tilewright.cli.tune_workloads import WorkloadRequest, parse_identifiers, parse_workload


def test_every_way_to_name_a_workload() -> None:
    assert parse_workload(["matmul", "512", "64", "1024"]).sizes == (512, 64, 1024)
    assert parse_workload(["conv2d", "1", "64", "56", "56", "64", "3", "2", "0"]).sizes[-1] == 0
    assert parse_workload(["r2"]) == WorkloadRequest(identifier="R2")
    assert parse_workload(["M4"]) == WorkloadRequest(identifier="M4")
    file = parse_workload(["dir/mine.py:make"])
    assert (file.file, file.function) == (Path("dir/mine.py"), "make")


def test_identifiers_and_ranges() -> None:
    assert parse_identifiers("M0..M2,r11, Y0") == ["M0", "M1", "M2", "R11", "Y0"]
    assert len(parse_identifiers("M0..M5,R0..R12,Y0..Y10")) == 30


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("matmul 512 0 1024", "the size N of matmul is '0'. Give a positive whole number"),
        ("matmul 512 -64 1024", "the size N of matmul is '-64'. Give a positive whole number"),
        ("matmul 512 6.4 1024", "the size N of matmul is '6.4'. Give a positive whole number"),
        ("matmul 512 ten 1024", "the size N of matmul is 'ten'. Give a positive whole number"),
        ("matmul 512 99999999 1024", "Give at most a million"),
        (f"matmul 512 {'9' * 5000} 1024", "Give a positive whole number"),
        ("matmul 512 64", "needs M N K, but the number of given sizes is 2"),
        (
            "conv2d 1 2 3",
            "needs N C H W FILTERS KERNEL [STRIDE] [PADDING], but the number of given sizes is 3",
        ),
        ("conv2d 1 3 8 8 4 3 0", "the size STRIDE of conv2d is '0'. Give a positive whole number"),
        ("R22", "did you mean 'R2'"),
        ("mm 1 2 3", "unknown workload 'mm'"),
        ("cpu:gemm-64x64x64", "Write for example `tilewright tune matmul 512 64 1024`"),
        ("matmull 1 2 3", "did you mean 'matmul'"),
        ("R13", "did you mean 'R"),
        ("M1 512", "Leave out 512"),
        ("mine.py", "workload.py:make_primfunc"),
        ("matmul 8 8 8 --bugdet 5", "did you mean '--budget'"),
        ("matmul 8 8 8 --budget 0s", "the budget '0s'"),
        ("matmul 8 8 8 --budget 5usd", "but tune uses none"),
        ("matmul 8 8 8 --budget 1.5trials", "the budget '1.5trials'"),
        ("matmul 8 8 8 --threads 0", "--threads"),
        ("matmul 8 8 8 --search fast", "fast"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(cli: Cli, words: str, expected: str) -> None:
    result = cli("tune", *words.split())
    assert result.code == 2
    assert expected in result.err
    assert len(result.err.strip().splitlines()) == 1


def test_the_missing_extra_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = cli("tune", "matmul", "8", "8", "8")
    assert result.code == 2
    assert "pip install 'tilewright[tune]'" in result.err


def test_nothing_of_the_extra_is_imported_before_it_is_looked_for(tmp_path: Path) -> None:
    broken = tmp_path / "broken" / "tvm"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise OSError('libtvm.so: cannot open')")
    (tmp_path / "broken" / "xgboost.py").touch()
    # Other tests have imported all of it: only a fresh process shows what a command imports first.
    program = """
import sys
from tilewright.cli.main import main

def run(*words):
    try:
        main(words)
    except SystemExit as end:
        print(end.code)

for hidden in "tvm", "xgboost":
    sys.modules[hidden] = None
    run("tune", "matmul", "8", "8", "8")
    run("tune-compare", "-o", sys.argv[1])
    del sys.modules[hidden]
    sys.path[:0] = sys.argv[2:]  # so that TVM is found, but does not load
run("tune", "matmul", "8", "8", "8")
"""
    arguments = [str(tmp_path / "out"), str(tmp_path / "broken")]
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.split() == ["2"] * 5
    lines = done.stderr.splitlines()
    assert [line.split(" needs ")[-1].split(",")[0] for line in lines[:4]] == [
        "tvm",
        "tvm",
        "xgboost",
        "xgboost",
    ]
    assert "does not load (libtvm.so: cannot open)" in lines[4]
    assert all("install it with: pip install 'tilewright[tune]'" in line for line in lines)


def test_features_of_a_search_that_predicts_nothing_are_refused(cli: Cli) -> None:
    words = "tune matmul 8 8 8 --search random --features analytical"
    result = cli(*words.split())
    assert result.code == 2
    assert "Leave out --features" in result.err
    assert len(result.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--search random --pretrained", "--search random --features analytical has no cost model"),
        ("--features tvm164 --pretrained", "--search gradient --features tvm164 has no cost model"),
        ("--target nvidia/h100 --pretrained", "only for CPUs. Leave out --pretrained"),
    ],
)
def test_a_pretrained_model_that_is_not_there_is_refused(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str, expected: str
) -> None:
    pytest.importorskip("tvm", reason="needs the extra 'tune' (TVM)")
    from tilewright.tuner.tvm.targets import TuningTarget

    monkeypatch.setattr(TuningTarget, "require_present", lambda self: None)
    words = f"tune matmul 64 64 64 {options} --project {tmp_path} -o {tmp_path / 'o'}"
    result = cli(*words.split())
    assert result.code == 2
    assert expected in result.err
    assert len(result.err.strip().splitlines()) == 1


@pytest.mark.parametrize("words", ["tune matmul 8 8 8", "tune-compare"])
def test_cpu_threads_of_a_gpu_are_refused(cli: Cli, tmp_path: Path, words: str) -> None:
    pytest.importorskip("tvm", reason="needs the extra 'tune' (TVM)")
    options = f"--target nvidia/h100 --threads 1 -o {tmp_path / 'o'}"
    result = cli(*words.split(), *options.split())
    assert result.code == 2
    assert "Leave --threads out" in result.err
    assert len(result.err.strip().splitlines()) == 1


def test_arms_that_only_a_cpu_has_are_refused_on_a_gpu(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tvm", reason="needs the extra 'tune' (TVM)")
    from tilewright.tuner.tvm.targets import TuningTarget

    monkeypatch.setattr(TuningTarget, "require_present", lambda self: None)
    arms = "af-ds,af-ds-pretrained,af-ds-unrelated,roller,random"
    options = f"--arms {arms} --target nvidia/h100 -o {tmp_path / 'o'}"
    result = cli("tune-compare", *options.split())
    assert result.code == 2
    assert "--arms af-ds-pretrained,af-ds-unrelated,roller cannot be used with a GPU" in result.err
    assert len(result.err.strip().splitlines()) == 1


@pytest.mark.parametrize("target", ["nvidia/h100", '{"kind": "cuda", "device": "h100"}'])
def test_another_gpu_of_the_same_architecture_is_not_the_one_named(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    pytest.importorskip("tvm", reason="needs the extra 'tune' (TVM)")
    from tilewright.tuner.tvm import targets

    here = targets.named_device("h200")
    monkeypatch.setattr(targets, "detect_gpu", lambda: here)
    result = cli("tune", "matmul", "8", "8", "8", "--target", target)
    assert result.code == 2
    assert "this machine has NVIDIA H200: give --target cuda" in result.err
    assert targets.parse_target("nvidia/h200").present
    assert targets.parse_target("cuda").present


@pytest.mark.parametrize(
    ("known", "name", "sms", "same"),
    [
        ("h100", "NVIDIA H100 80GB HBM3", 132, True),
        ("a100", "NVIDIA A100-SXM4-40GB", 108, True),
        ("3090", "NVIDIA GeForce RTX 3090", 82, True),
        ("3090", "NVIDIA GeForce RTX 3090 Ti", 84, False),
        ("h100", "NVIDIA H100 PCIe", 114, False),
        ("h100", "NVIDIA H200", 132, False),
    ],
)
def test_a_gpu_is_known_by_its_drivers_name(
    monkeypatch: pytest.MonkeyPatch, known: str, name: str, sms: int, same: bool
) -> None:
    pytest.importorskip("tvm", reason="needs the extra 'tune' (TVM)")
    from tilewright.tuner.device import GpuDevice, named_device
    from tilewright.tuner.tvm import targets

    device = named_device(known)
    assert isinstance(device, GpuDevice)
    here = replace(device, name=name, sms=sms)
    monkeypatch.setattr(targets, "detect_gpu", lambda: here)
    target = targets.parse_target(f"nvidia/{known}")
    assert (target.present, target.instead) == (same, None if same else name)


def test_a_result_folder_that_cannot_be_written(cli: Cli, tmp_path: Path) -> None:
    pytest.importorskip("tvm", reason="needs the extra 'tune' (TVM)")
    (tmp_path / "taken").write_text("")
    result = cli("tune", "matmul", "8", "8", "8", "-o", str(tmp_path / "taken"))
    assert result.code == 2
    assert "is not a folder" in result.err


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("tpu", "unknown target"),
        ("nvidia/h100", "is not in this machine"),
        ('{"kind": "metal"}', "metal"),
    ],
)
def test_targets_that_cannot_be_tuned_for(cli: Cli, target: str, words: str) -> None:
    pytest.importorskip("tvm", reason="needs the extra 'tune' (TVM)")
    result = cli("tune", "matmul", "8", "8", "8", "--target", target)
    assert result.code == 2
    assert words in result.err


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--arms afds", "did you mean 'af-ds'"),
        ("--workloads M9", "did you mean 'M"),
        ("--workloads M3..M1", "not a range"),
        ("--workloads M0..R2", "not a range"),
        ("--trials 0", "'0'. Give positive whole numbers"),
        (f"--trials {'9' * 5000}", "below a billion"),
        ("--trials 100,many", "'many'. Give positive whole numbers"),
        ("--seeds 0", "--seeds"),
    ],
)
def test_bad_comparisons_are_one_sentence_and_exit_2(cli: Cli, options: str, expected: str) -> None:
    result = cli("tune-compare", *options.split())
    assert result.code == 2
    assert expected in result.err
    assert len(result.err.strip().splitlines()) == 1
