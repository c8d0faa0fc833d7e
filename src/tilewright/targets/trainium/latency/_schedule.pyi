from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

SOURCE_HASH: str

def place(
    rules: Mapping[str, Any],
    cost: NDArray[Any],
    job_ns: NDArray[Any],
    jobs: NDArray[Any],
    ports: NDArray[Any],
    first_access: NDArray[Any],
    tensor: NDArray[Any],
    kind: NDArray[Any],
    quarters: NDArray[Any],
    low: NDArray[Any],
    high: NDArray[Any],
    previous: NDArray[Any],
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]: ...
