"""Runs one kernel with the AWS SDK. `sdk.py` starts it in the SDK's Python, so it imports nothing
of tilewright.

With `--versions`, it prints the versions of the SDK's packages as JSON. Otherwise, its argument is
a folder with `request.json`, `kernel.py` and the inputs' bytes. It writes the outputs' bytes and
`result.json` to this folder.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("neuronx-cc", "nki", "torch-neuronx", "libneuronxla", "aws-neuronx-runtime-discovery")
WARM_UP, TIMED = 2, 10


def versions() -> dict[str, str]:
    """Versions of the SDK's installed packages, by name."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def main(folder: Path) -> None:
    """Compile and run the kernel, time it, and keep the compiled program for the profiler."""
    import numpy as np

    request = json.loads((folder / "request.json").read_text())
    nki = importlib.import_module(request["nki"])
    missing = [name for name in ("baremetal", "benchmark") if not hasattr(nki, name)]
    if missing:
        raise SystemExit(f"{request['nki']} of this SDK has no {' and no '.join(missing)}")
    kernel = _kernel(folder / "kernel.py", request["entry"])
    inputs = {i["name"]: _read(folder, i) for i in request["inputs"]}
    outputs = {o["name"]: np.zeros(o["shape"], _dtype(o["dtype"])) for o in request["outputs"]}
    args, kwargs, given = _arguments(kernel, inputs, outputs, request)
    found = nki.baremetal(kernel)(*args, **kwargs)
    if found is None and given:
        found = tuple(outputs.values())
    found = found if isinstance(found, (tuple, list)) else (found,)
    for described, array in zip(request["outputs"], found):  # noqa: B905 (Python 3.9 of the SDK)
        kept = np.asarray(array).astype(_dtype(described["dtype"]))
        (folder / f"{described['name']}.out").write_bytes(kept.tobytes())
    timed = nki.benchmark(warmup=WARM_UP, iters=TIMED, save_neff_name=str(folder / "kernel.neff"))(
        kernel
    )
    timed(*args, **kwargs)
    latency = timed.benchmark_result.nc_latency.get_latency_percentile(99)
    result = {"latency_us": float(latency), "outputs": len(found)}
    (folder / "result.json").write_text(json.dumps(result))


def _kernel(path: Path, entry: str) -> Any:
    spec = importlib.util.spec_from_file_location("kernel", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["kernel"] = module
    spec.loader.exec_module(module)
    found = getattr(module, entry)
    return getattr(found, "func", found)  # the function that nki.jit decorated


def _arguments(
    kernel: Any, inputs: dict[str, Any], outputs: dict[str, Any], request: Any
) -> tuple[Any, dict[str, Any], bool]:
    """Arguments as the interpreter passes them: by name if the kernel has the names, otherwise in
    order."""
    parameters = inspect.signature(kernel).parameters
    constants = {
        name: _constant(value, request)
        for name, value in request["constants"].items()
        if name in parameters
    }
    given = {}
    if request["gives_outputs"]:
        free = [
            n
            for n, p in parameters.items()
            if n not in constants and p.default is p.empty and n not in inputs
        ]
        given = dict(zip(free[-len(outputs) :], outputs.values()))  # noqa: B905
    if all(name in parameters for name in inputs):
        return (), {**inputs, **constants, **given}, bool(given)
    return tuple(inputs.values()), {**constants, **given}, bool(given)


def _constant(value: Any, request: Any) -> Any:
    if isinstance(value, str) and value in request["types"]:
        return getattr(importlib.import_module(f"{request['nki']}.language"), value)
    return tuple(_constant(v, request) for v in value) if isinstance(value, list) else value


def _read(folder: Path, described: Any) -> Any:
    import numpy as np

    data = (folder / f"{described['name']}.in").read_bytes()
    return np.frombuffer(data, _dtype(described["dtype"])).reshape(described["shape"])


def _dtype(name: str) -> Any:
    import numpy as np

    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


if __name__ == "__main__":
    if sys.argv[1] == "--versions":
        print(json.dumps(versions()))
    else:
        main(Path(sys.argv[1]))
