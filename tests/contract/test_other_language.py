"""A target in a language of its own, known by its entry point alone, goes through every command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tilewright.cli.main import main
from tilewright.testing.model_server import ModelServer

PLUGINS = Path(__file__).parents[1] / "plugins"
SEARCH = ("--beam", "1", "--plans", "1", "--implementations", "1", "--iterations", "3")
WORKLOAD = """
target = "vecton"
name = "mine"
operations = 48

[[argument]]
name = "X"
shape = [48]
dtype = "bfloat16"
role = "input"

[[argument]]
name = "def_"
shape = [48]
dtype = "bfloat16"
role = "output"

[tolerance]
relative = 0.01
"""


def answer(prompt: str, key: str) -> str:
    """Doubles the elements of every access, which Vecton allows up to 8."""
    if "# Optimisations to choose from" in prompt:
        return f"OPTION: widen\nEXPECTED: half the accesses\n\nTwice as many elements ({key})."
    (source,) = re.findall(r"```vecton\n(.*?)```", prompt, re.DOTALL)
    width = int(re.findall(r"i : i \+ (\d+)", source)[0])
    wider = source.replace(f"i + {width}", f"i + {2 * width}").replace(
        f"), {width})", f"), {2 * width})"
    )
    return f"Done:\n\n```vecton\n# twice as wide\n{wider}```\n"


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    monkeypatch.syspath_prepend(PLUGINS)
    monkeypatch.setenv("PYTHONPATH", str(PLUGINS), prepend=":")
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out + captured.err

    return call


def searched(call, task: str, *more: str) -> dict[str, object]:  # type: ignore[no-untyped-def]
    with ModelServer(answer=answer) as server:
        model = f"openai/toy@{server.url}?price=0:0"
        code, text = call("optimize", task, "--proposer", model, *SEARCH, "--json", "r.json", *more)
    assert code == 0, text
    assert "-o kernel.vec" in text
    written: dict[str, object] = json.loads(Path("r.json").read_text())
    return written


def test_a_registered_workload_goes_through_every_command(call) -> None:  # type: ignore[no-untyped-def]
    written = searched(call, "vecton:double-48", "--report", "r.html")
    assert written["baseline_latency"] == 3 * 48
    assert written["best_latency"] == 3 * 48 / 8
    assert written["confirmed"] is True
    assert '<span class="k">def</span>' in Path("r.html").read_text()
    assert call("best", "latest", "-o", "kernel.vec")[0] == 0
    code, text = call(
        "evaluate", "kernel.vec", "--workload", "vecton:double-48", "--json", "e.json"
    )
    assert code == 0, text
    assert json.loads(Path("e.json").read_text())["latency"] == written["best_latency"]
    assert call("report", "latest", "-o", "again.html")[0] == 0
    code, text = call("bundle", "latest", "-o", "b.bundle")
    assert code == 0, text
    code, text = call("verify", "b.bundle")
    assert code == 0, text
    assert "8.000x" in text


def test_a_folder_goes_through_every_command(call, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "workload.toml").write_text(WORKLOAD)
    (folder / "reference.py").write_text("def reference(X):\n    return X + X\n")
    (folder / "kernel.vec").write_text(
        "def compute(X, Y):\n    for i in range(0, len(X), 1):\n"
        "        Y[i : i + 1] = X[i : i + 1] + X[i : i + 1]\n"
    )
    written = searched(call, str(folder))
    assert written["best_latency"] == 3 * 48 / 8
    assert call("bundle", "latest", "-o", "b.bundle")[0] == 0
    (folder / "kernel.vec").unlink()  # the bundle brings it
    code, text = call("verify", "b.bundle", "--trust-reference")
    assert code == 0, text


def test_a_proposer_of_other_languages_is_refused(call) -> None:  # type: ignore[no-untyped-def]
    code, text = call("optimize", "vecton:double-48", "--proposer", "builtin")
    assert code == 2
    assert (
        "proposer 'builtin' writes C, NKI, CUDA C++, KernelBench and Triton only, and kernels of "
        "vecton are written in Vecton" in text
    )
    assert (
        "contains no runs of tilewright" in call("runs", "list")[1]
    )  # refused before anything is recorded


def test_names_of_arguments_are_checked_by_the_language(call, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "workload.toml").write_text(WORKLOAD.replace('"def_"', '"def"'))
    (folder / "reference.py").write_text("")
    (folder / "kernel.vec").write_text("")
    code, text = call("optimize", str(folder))
    assert code == 2
    assert "'def' is a keyword of Vecton" in text.replace("\n", " ")


def test_messages_about_kernel_files_name_the_language(call) -> None:  # type: ignore[no-untyped-def]
    Path("broken.vec").write_text("no kernel")
    for words, said in (
        (("evaluate", "missing.vec"), "Give a Vecton file in UTF-8"),
        (("evaluate", "broken.vec"), "Write Vecton that defines the function `compute`"),
        (
            ("rewrite", "broken.vec", "--list"),
            "kernels of vecton are written in Vecton, and the rewriter reads C and NKI only",
        ),
    ):
        code, text = call(*words, "--workload", "vecton:double-48")
        assert code == 2
        assert said in " ".join(text.split())
