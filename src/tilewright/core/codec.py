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


_SCALARS = frozenset({str, float, int, bool, type(None)})
"""Classes whose values are the same in JSON. Most values of an outcome are of these classes, and
every evaluation is sent as JSON, so no function is called for them.
"""


def to_json(value: Any) -> Any:
    """The JSON value of a record, mapping, tuple or scalar. Records include their class name."""
    if isinstance(value, (str, float, int)):
        return value
    if isinstance(value, (dict, Mapping)):
        return {str(k): v if v.__class__ in _SCALARS else to_json(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [v if v.__class__ in _SCALARS else to_json(v) for v in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        name = type(value).__name__
        if name not in _TYPES:
            raise TypeError(f"{name} is not a type of record that can be sent as JSON")
        found: dict[str, Any] = {"type": name}
        for field in _fields_of(type(value)):
            v = getattr(value, field)
            found[field] = v if v.__class__ in _SCALARS else to_json(v)
        return found
    return value


def from_json(value: Any) -> Any:
    """The inverse of `to_json`. Lists become tuples.

    Raises `ValueError` or `TypeError` on anything that is not exactly a record.
    """
    if isinstance(value, dict):
        if "type" in value and value["type"] in _TYPES:
            cls = _TYPES[value["type"]]
            given = {
                k: v if v.__class__ in _SCALARS else from_json(v)
                for k, v in value.items()
                if k != "type"
            }
            unknown = given.keys() - _fields_of(cls)
            if unknown:
                raise ValueError(f"{cls.__name__} has no field {sorted(unknown)}")
            record = cls(**given)
            require_types(record)
            return record
        return {k: v if v.__class__ in _SCALARS else from_json(v) for k, v in value.items()}
    if isinstance(value, list):
        return tuple([v if v.__class__ in _SCALARS else from_json(v) for v in value])
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
