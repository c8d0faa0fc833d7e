"""`tilewright init` and `tilewright check`, as a new user calls them.

Most tests use trainium, which needs no compiler.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from toy_cli import Cli

from tilewright.core.errors import ToolchainMissingError


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_new_folder_passes_its_check(cli: Cli) -> None:
    made = cli("init", "mine", "--target", "trainium")
    assert made.code == 0
    assert "tilewright check mine" in made.out
    checked = cli("check", "mine", "--json", "check.json")
    assert (checked.code, checked.err) == (0, "")
    assert "agrees with the reference" in checked.out
    assert "tilewright optimize mine --budget '60 s'" in checked.out
    written = json.loads(Path("check.json").read_text())
    assert written["target"] == "trainium"
    assert written["latency"] > 0


def test_a_template_is_checked_with_its_first_values_and_searched_until_all_are_tried(
    cli: Cli,
) -> None:
    cli("init", "mine", "--target", "trainium")
    kernel = Path("mine/kernel.py")
    text = kernel.read_text().replace("512", "TN")
    kernel.write_text(text.replace("@nki.jit", "TN = tune(512, 256)\n\n\n@nki.jit"))
    checked = cli("check", "mine", "--json", "check.json").out
    assert "ok  template  2 valid combinations of values; the kernel has the first one: " in checked
    assert "TN = 512" in checked
    assert "warning" not in checked
    assert json.loads(Path("check.json").read_text())["values"] == {"TN": 512}
    searched = cli("optimize", "mine", "--without", "structure", "--budget", "9 evaluations").out
    assert "1 candidate computed correct results but was no faster" in searched
    assert "Declare further values or parameters in the template" in searched
    assert "2 evaluations in" in searched
    assert "ended because the search for the values of the template has converged" in searched
    kernel.write_text(kernel.read_text().replace("(512, 256)", "(512)"))
    searched = cli("optimize", "mine", "--without", "structure", "--budget", "9 evaluations").out
    assert "The template has only one valid combination of values." in searched


def test_a_parameter_that_the_kernel_never_uses_is_named_in_one_sentence(cli: Cli) -> None:
    cli("init", "mine", "--target", "trainium")
    kernel = Path("mine/kernel.py")
    text = kernel.read_text()
    kernel.write_text(text.replace("@nki.jit", "SPARE = tune(2, 3)\n\n\n@nki.jit", 1))
    checked = cli("check", "mine", "--json", "check.json")
    assert checked.code == 0
    (said,) = (line for line in checked.out.splitlines() if line.startswith("warning"))
    assert said == (
        "warning: the kernel declares the parameter SPARE, but does not use it, so all its values "
        "give the same kernel."
    )
    assert json.loads(Path("check.json").read_text())["unused_parameters"] == ["SPARE"]


def test_printed_commands_begin_as_the_one_that_printed_them(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_COMMAND", "/my tools/tw")
    made = cli("init", "mine", "--target", "trainium").out
    pasted = made.splitlines()[1].removeprefix("check it").strip()
    assert shlex.split(pasted) == ["/my tools/tw", "check", "mine"]


@pytest.mark.parametrize(
    ("file", "old", "new", "reason"),
    [
        ("workload.toml", "operations", "operation", "operation"),
        ("workload.toml", 'target = "trainium"', 'target = "tranium"', "did you mean 'trainium'"),
        (
            "reference.py",
            "exact =",
            "exact = 2 *",
            "the kernel and the reference give different results",
        ),
        ("reference.py", "def reference", "def referee", "defines no function reference"),
        ("kernel.py", "nisa.nc_matmul", "nisa.nc_matmull", "nc_matmull"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    cli: Cli, file: str, old: str, new: str, reason: str
) -> None:
    cli("init", "mine", "--target", "trainium")
    path = Path("mine") / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    checked = cli("check", "mine")
    assert checked.code == 2
    assert reason in checked.err
    assert checked.err.count("\n") == 1


def test_a_reference_that_is_not_deterministic_is_refused(cli: Cli) -> None:
    cli("init", "mine", "--target", "trainium")
    path = Path("mine/reference.py")
    noisy = "exact = np.random.default_rng().normal(1, 1e-4, (1, 1)) * "
    path.write_text(path.read_text().replace("exact = ", noisy))
    checked = cli("check", "mine")
    assert checked.code == 2
    assert "two different results" in checked.err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "init needs a name"),
        (("mine",), "init needs --target"),
        (("mine", "--target", "gemini"), "did you mean 'gemmini'"),
        (("a b", "--target", "gemmini"), "cannot be the name of a kernel folder"),
        ((".", "--target", "gemmini"), "exists already"),
        (("mine", "--target", "gemmini", "--from-function", "x.py"), "names no function"),
        (("mine", "--target", "gemmini", "--from-function", "x.py:f"), "x.py cannot be read"),
    ],
)
def test_unusable_arguments_are_one_sentence(
    cli: Cli, arguments: tuple[str, ...], reason: str
) -> None:
    refused = cli("init", *arguments)
    assert refused.code == 2
    assert reason in refused.err
    assert not Path("mine").exists()


def test_the_schema_names_every_field(cli: Cli) -> None:
    schema = json.loads(cli("init", "--schema").out)
    assert set(schema["properties"]) == {
        "name",
        "target",
        "operations",
        "reduction",
        "tolerance",
        "constants",
        "argument",
    }
    assert all(field["description"] for field in schema["properties"].values())


def test_init_says_what_a_check_needs_that_is_not_installed(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacks(self: object) -> dict[str, str]:
        raise ToolchainMissingError("kernels need Triton, which is not installed.")

    monkeypatch.setattr("tilewright.targets.cuda.triton.target.TritonTarget.versions", lacks)
    made = cli("init", "mine", "--target", "triton")
    assert made.code == 0
    assert "Before you check it: kernels need Triton, which is not installed." in made.out
    assert "Before you check it" not in cli("init", "other", "--target", "trainium").out


def test_on_a_machine_that_cannot_time_what_works_is_printed(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilewright.targets.amx.support.missing_feature", lambda element: "tiles")
    made = cli("init", "mine", "--target", "amx-int8")
    assert made.code == 0
    assert "tilewright evaluate mine/kernel.c --workload mine\n" in made.out
    assert "A search cannot run on this machine: this CPU" in made.out
    assert "optimize" not in made.out
    refused = cli("optimize", "mine")
    assert refused.code == 2
    assert "cannot be optimised on this machine: this CPU" in refused.err
    folder = Path("mine").resolve()
    assert f"`tilewright check {folder}` compiles and checks" in refused.err
    assert f"`tilewright evaluate {folder}/kernel.c --workload {folder}`" in refused.err
