"""Records to plain JSON and back, for storage and worker processes.

Only the record classes named in `_TYPES` can be converted. An unknown field, a missing field, and a
field of a type other than the declared one are errors, so that a database of a newer version or of
another program is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Any

from tilewright.core import compiled_code, records
from tilewright.core.field_types import require_types

_TYPES: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        records.Argument,
        records.Tolerance,
        records.Workload,
        records.Plan,
        records.Schedule,
        records.Candidate,
        records.EvaluationRequest,
        records.Check,
        records.Verdict,
        records.Gap,
        records.Measured,
        records.Failed,
        records.Baseline,
        records.AttackResult,
        records.LeftAlone,
        compiled_code.CodeLine,
        compiled_code.CodeLoop,
        compiled_code.CompiledCode,
    )
}


LEAST_LATENCY, MOST_LATENCY = 1e-12, 1e18
"""Limits for the latency of any kernel, in any unit. With these limits, speedups and their
reciprocals are finite numbers.
"""


def to_json(value: Any) -> Any:
    """The JSON value of a record, mapping, tuple or scalar. Records include their class name."""
    if isinstance(value, (str, float, int)):  # most values: every evaluation is sent as JSON
        return value
    if isinstance(value, (dict, Mapping)):
        return {str(k): to_json(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(v) for v in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        name = type(value).__name__
        if name not in _TYPES:
            raise TypeError(f"{name} is not a type of record that can be sent as JSON")
        fields = {field: to_json(getattr(value, field)) for field in _fields_of(type(value))}
        return {"type": name, **fields}
    return value


def from_json(value: Any) -> Any:
    """The inverse of `to_json`. Lists become tuples.

    Raises `ValueError` or `TypeError` on anything that is not exactly a record.
    """
    if isinstance(value, dict):
        if "type" in value and value["type"] in _TYPES:
            cls = _TYPES[value["type"]]
            given = {k: from_json(v) for k, v in value.items() if k != "type"}
            unknown = given.keys() - _fields_of(cls)
            if unknown:
                raise ValueError(f"{cls.__name__} has no field {sorted(unknown)}")
            record = cls(**given)
            require_types(record)
            return record
        return {k: from_json(v) for k, v in value.items()}
    if isinstance(value, list):
        return tuple(from_json(v) for v in value)
    return value


@cache
def _fields_of(cls: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(cls))


def outcome_from_json(value: Any) -> records.Outcome:
    """An outcome whose latency is within the limits; `ValueError` or `TypeError` for anything
    else.
    """
    record = from_json(value)
    if not isinstance(record, (records.Measured, records.Failed)):
        raise TypeError("the record is not an outcome")
    if isinstance(record, records.Measured) and not LEAST_LATENCY <= record.latency <= MOST_LATENCY:
        raise ValueError(f"a latency is not in the range {LEAST_LATENCY:g} to {MOST_LATENCY:g}")
    return record
