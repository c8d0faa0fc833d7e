"""The printed JSON Schema accepts what tilewright accepts and refuses what it refuses."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tilewright.core.errors import WorkloadError
from tilewright.core.plugins import load_target, target_names
from tilewright.core.roles import ProvidesFolderTemplate
from tilewright.parts.new_folder import from_template
from tilewright.parts.workload_file import read_workload_file
from tilewright.parts.workload_schema import SCHEMA

jsonschema = pytest.importorskip("jsonschema")
ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples").glob("*/workload.toml"))
VALIDATOR = jsonschema.Draft202012Validator(json.loads(json.dumps(SCHEMA)))


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(VALIDATOR.schema)


def test_there_is_an_example_for_each_kind_of_target() -> None:
    targets = {tomllib.loads(file.read_text())["target"] for file in EXAMPLES}
    assert {"gemmini", "gemmini-fp32-4x4", "host-c", "amx-bf16", "trainium"} <= targets


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.parent.name)
def test_examples_are_valid(file: Path) -> None:
    VALIDATOR.validate(tomllib.loads(file.read_text()))
    read_workload_file(file)


@pytest.mark.parametrize("name", sorted(target_names()))
def test_new_folders_are_valid(name: str) -> None:
    target = load_target(name)
    if not isinstance(target, ProvidesFolderTemplate):
        pytest.skip("it offers no template")
    template = target.template()
    task = target.open(template.workload, {})
    files = from_template("new", name, task.workload, task.start, target.brief().language, template)
    VALIDATOR.validate(tomllib.loads(files["workload.toml"]))


def changed(**fields: Any) -> dict[str, Any]:
    document: dict[str, Any] = {
        "target": "gemmini",
        "operations": 1,
        "argument": [{"name": "x", "shape": [4], "dtype": "int8", "role": "output"}],
    }
    for name, value in fields.items():
        if name in document["argument"][0]:
            document["argument"][0][name] = value
        else:
            document[name] = value
    return document


@pytest.mark.parametrize(
    "document",
    [
        changed(oprations=3),
        changed(operations=-1),
        changed(reduction=0),
        changed(shape=[]),
        changed(shape=[0]),
        changed(shape=[True, 128]),
        changed(operations=True),
        changed(dtype="int7"),
        changed(role="inputs"),
        changed(name="a b"),
        changed(argument=[]),
        changed(tolerance={"absolute": -1}),
    ],
    ids=str,
)
def test_what_is_refused_is_invalid(document: dict[str, Any], tmp_path: Path) -> None:
    assert VALIDATOR.is_valid(changed())
    assert not VALIDATOR.is_valid(document)
    file = tmp_path / "workload.toml"
    arguments = document.pop("argument")
    tolerance = document.pop("tolerance", None)
    lines = [f"{name} = {json.dumps(value)}" for name, value in document.items()]
    if tolerance:
        lines += ["[tolerance]", *(f"{name} = {value}" for name, value in tolerance.items())]
    for argument in arguments:
        lines.append("[[argument]]")
        lines += [f"{name} = {json.dumps(value)}" for name, value in argument.items()]
    file.write_text("\n".join(lines))
    with pytest.raises(WorkloadError):
        read_workload_file(file)


def test_a_shape_of_true_and_a_number_is_refused_in_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "workload.toml"
    file.write_text(
        'target = "gemmini"\noperations = 1\n[[argument]]\n'
        'name = "x"\nshape = [true, 128]\ndtype = "int8"\nrole = "output"\n'
    )
    with pytest.raises(WorkloadError) as raised:
        read_workload_file(file)
    assert str(raised.value) == (
        f"{file}: field 'argument.0.shape.0': give a number instead of true "
        "(see docs/targets.md for the format)."
    )
