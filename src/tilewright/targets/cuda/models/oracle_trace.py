"""Records the operations of a `Model` as a list of PyTorch's own operations on arrays without
values.

It is part of the sandboxed program that `oracle.py` starts, and imports nothing of tilewright.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

torch: Any = importlib.import_module("torch")
_dispatch: Any = importlib.import_module("torch.utils._python_dispatch")
MOST_OPERATIONS = 200
"""Maximum number of operations in the description of a model; if a model has more, the list is
empty."""


class Traced(_dispatch.TorchDispatchMode):  # type: ignore[misc]
    """Records the name, the operands and the results of each operation."""

    def __init__(self, model: Any, inputs: Sequence[Any]) -> None:
        super().__init__()
        self.operations: list[dict[str, Any]] = []
        self._kept: list[
            Any
        ] = []  # keeps the tensor alive, so that no other tensor gets its identity
        self._names: dict[int, str] = {}
        for name, value in [*model.named_parameters(), *model.named_buffers()]:
            self._named(value, f"self.{name}")
        for number, value in enumerate(inputs):
            if isinstance(value, torch.Tensor):
                self._named(value, f"input {number}")

    def __torch_dispatch__(
        self, function: Any, kinds: Any, given: Any = (), words: Mapping[str, Any] | None = None
    ) -> Any:
        """Execute an operation as PyTorch would, and record it."""
        said = [self._said(value) for value in given]
        keywords = {name: self._said(value) for name, value in (words or {}).items()}
        found = function(*given, **(words or {}))
        results = found if isinstance(found, (tuple, list)) else [found]
        number = len(self.operations)
        gives = []
        for place, value in enumerate(results):
            if isinstance(value, torch.Tensor):
                self._named(value, f"{number}.{place}")
                gives.append({"shape": list(value.shape), "dtype": str(value.dtype)})
            else:
                gives.append({})
        operation = {"does": str(function), "given": said, "words": keywords, "gives": gives}
        self.operations.append(operation)
        return found

    def described(self, outputs: Sequence[Any]) -> dict[str, Any]:
        """All operations, and which of the named values are the outputs."""
        names = [self._names.get(id(value), "") for value in outputs]
        few = self.operations if len(self.operations) <= MOST_OPERATIONS else []
        return {"operations": few, "outputs": names}

    def _named(self, value: Any, name: str) -> None:
        self._kept.append(value)
        self._names[id(value)] = name

    def _said(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            name = self._names.get(id(value), "")
            if not name and value.dim() == 0:
                return value.item()  # such as `torch.tensor(float("-inf"))`
            return {"array": name, "shape": list(value.shape), "dtype": str(value.dtype)}
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, (list, tuple)):
            return [self._said(one) for one in value]
        return {"unknown": type(value).__name__}
