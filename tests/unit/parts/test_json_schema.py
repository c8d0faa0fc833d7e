"""A file that its schema refuses: the place of the first mistake, and one instruction."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.parts.json_schema import Mistake, first_mistake
from tilewright.parts.workload_schema import MAX_COUNT, SCHEMA


def document(**fields: Any) -> dict[str, Any]:
    argument = {"name": "x", "shape": [4], "dtype": "int8", "role": "output"}
    return {"target": "gemmini", "operations": 1, "argument": [argument], **fields}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"operations": 0},
        {"operations": 1e9},
        {"constants": {"a": True, "b": 2, "c": -3.4e38, "d": "bfloat16", "e": [1, False, 0.5]}},
        {"constants": {"far": 10 * MAX_COUNT}},
    ],
    ids=str,
)
def test_a_correct_file_has_no_mistake(fields: dict[str, Any]) -> None:
    assert first_mistake(document(**fields), SCHEMA) is None


@pytest.mark.parametrize(
    ("fields", "place", "advice"),
    [
        ({"target": 3}, ("target",), "give a text in quotes"),
        ({"name": "a b"}, ("name",), "give a text of the form ^[A-Za-z0-9_.-]+$"),
        ({"name": "a\n"}, ("name",), "give a text of the form ^[A-Za-z0-9_.-]+$"),
        ({"name": "a" * 101}, ("name",), "give at most 100 characters"),
        ({"operations": -1}, ("operations",), "give a number greater than or equal to 0"),
        ({"operations": 0.5}, ("operations",), "give a whole number"),
        ({"operations": "4"}, ("operations",), "give a whole number"),
        ({"operations": True}, ("operations",), "give a number instead of true"),
        ({"operations": float("inf")}, ("operations",), "give a whole number"),
        ({"reduction": 0}, ("reduction",), "give a number greater than 0"),
        (
            {"reduction": 2 * MAX_COUNT},
            ("reduction",),
            f"give a number less than or equal to {MAX_COUNT}",
        ),
        ({"tolerance": 1}, ("tolerance",), "give a table"),
        (
            {"tolerance": {"absolute": float("nan")}},
            ("tolerance", "absolute"),
            "give a finite number",
        ),
        ({"tolerance": {"relative": 10**400}}, ("tolerance", "relative"), "give a finite number"),
        (
            {"constants": {"a": {}}},
            ("constants", "a"),
            "give true or false, a whole number, a number, a text in quotes or a list",
        ),
        (
            {"constants": {"a": [1, "2"]}},
            ("constants", "a", 1),
            "give true or false, a whole number or a number",
        ),
        ({"constants": {"a": "x" * 257}}, ("constants", "a"), "give at most 256 characters"),
        (
            {"constants": {"1a": 1}},
            ("constants", "1a"),
            "its name: give a text of the form ^[A-Za-z_][A-Za-z0-9_]*$",
        ),
        (
            {"constants": {f"a{i}": i for i in range(33)}},
            ("constants",),
            "give at most 32 values",
        ),
        ({"reductoin": 1}, ("reductoin",), "no such field exists, so write 'reduction' instead"),
        ({"argument": []}, ("argument",), "give at least 1 value"),
        (
            {"unknown": 1},
            ("unknown",),
            "no such field exists, so correct its name or remove it",
        ),
    ],
    ids=str,
)
def test_a_mistake_is_told_with_its_place(
    fields: dict[str, Any], place: tuple[str | int, ...], advice: str
) -> None:
    assert first_mistake(document(**fields), SCHEMA) == Mistake(place, advice)


@pytest.mark.parametrize(
    ("changes", "place", "advice"),
    [
        ({"shape": [1] * 9}, ("shape",), "give at most 8 values"),
        ({"shape": [4, 0]}, ("shape", 1), "give a number greater than 0"),
        ({"role": "inputs"}, ("role",), "give 'input', 'output' or 'inout' instead of 'inputs'"),
        ({"role": "x" * 21}, ("role",), "give 'input', 'output' or 'inout'"),
        ({"role": []}, ("role",), "give 'input', 'output' or 'inout'"),
        ({"inputs": {}}, ("inputs",), "give one of range, normal and generator"),
        ({"inputs": {"range": [1]}}, ("inputs", "range"), "give 2 values"),
        (
            {"inputs": {"normal": [0, -1]}},
            ("inputs", "normal", 1),
            "give a number greater than or equal to 0",
        ),
    ],
    ids=str,
)
def test_a_mistake_of_an_argument_is_told_with_its_place(
    changes: dict[str, Any], place: tuple[str | int, ...], advice: str
) -> None:
    changed = document()
    changed["argument"][0].update(changes)
    assert first_mistake(changed, SCHEMA) == Mistake(("argument", 0, *place), advice)


def test_a_missing_field_is_named() -> None:
    incomplete = document()
    del incomplete["operations"]
    found = first_mistake(incomplete, SCHEMA)
    assert found == Mistake(("operations",), "the field is missing, so add it")
    incomplete["operation"] = 1
    found = first_mistake(incomplete, SCHEMA)
    advice = "the field is missing, so correct the name 'operation' in the file"
    assert found == Mistake(("operations",), advice)
