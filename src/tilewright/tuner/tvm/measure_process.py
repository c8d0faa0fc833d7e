"""The process that loads compiled candidates and times them. `runner` starts it.

`answering` defines the protocol. On a CPU, every candidate runs in its own child process, so that a
crash affects only this candidate. A CUDA context does not survive a fork, so on a GPU the whole
process ends, and the runner starts another.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from tilewright.sandbox.child import Channel
from tilewright.tuner.tvm.contained import Answer, contained


class Session:
    """Inputs, expected outputs and timing rules of one function."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.device = request["device"]
        self.inputs = [np.load(path) for path in request["inputs"]]
        self.output = request["output"]
        self.expected = np.load(request["expected"])
        self.bound = float(request["bound"])

    def measure(self, request: dict[str, Any]) -> Answer:
        """Warm up, check, measure, and check the outputs of the timed calls."""
        kernel, sample_s = Kernel(self, request["library"]), float(request["sample_s"])
        with _ended_after(request["hopeless_cpu_s"] if self.device == "cpu" else None):
            first = kernel.time(1)
        if (wrong := kernel.verdict()) is not None:
            return {"failure": "wrong", "log": wrong}
        if first < sample_s:  # the influence of cold caches, which is visible in short calls
            first = min(first, kernel.time(2))
        # A candidate far slower than the best is not measured again, to save time on the device.
        if first > float(request["slow_s"]):
            return {"samples": [first], "calls": 1}
        kernel.poison()
        samples, calls = _samples(kernel, int(request["repeats"]), sample_s, first)
        if (wrong := kernel.verdict()) is not None:
            return {"failure": "wrong", "log": wrong}
        return {"samples": samples, "calls": calls}

    def interleave(self, request: dict[str, Any]) -> Answer:
        """Rounds in which every contender is timed once, each in a new random order.

        Before each sample, there is an untimed call, as in a search, so that the caches contain the
        arrays of this contender and not those of the previous one. The file `at` says which
        contender is running, so that a crash or a hang can be attributed to it.
        """
        turn = _Turn(request.get("at"))
        draw = np.random.default_rng(request["seed"])
        contenders: list[Any] = []
        for n, path in enumerate(request["libraries"]):
            turn.of(n)
            contenders.append(Kernel(self, path))
        turn.of(len(contenders))
        if request.get("reference") and (library := Reference.of(self, request["reference"])):
            contenders.append(library)
        calls = []
        for n, contender in enumerate(contenders):
            turn.of(n)
            first = contender.time(1)
            wrong = contender.verdict()
            if wrong is not None:
                return {"failure": "wrong", "log": wrong}
            calls.append(_calls(contender, float(request["sample_s"]), first))
        samples: list[list[float]] = [[] for _ in contenders]
        for _ in range(int(request["rounds"])):
            for n in draw.permutation(len(contenders)):
                turn.of(n)
                contenders[n].warm_up()
                samples[n].append(contenders[n].time(calls[n]))
        return {"samples": samples}


class _Turn:
    """Writes the running contender's position to a file, if a file is given."""

    def __init__(self, file: str | None) -> None:
        self._file = None if file is None else os.open(file, os.O_WRONLY)

    def of(self, position: int) -> None:
        """The contender at `position` runs next."""
        if self._file is not None:
            os.pwrite(self._file, f"{position:8d}".encode(), 0)


class Kernel:
    """A loaded candidate with its own arguments."""

    def __init__(self, session: Session, library: str) -> None:
        import tvm

        from tilewright.tuner.tvm.loading import load_device_runtime

        load_device_runtime(session.device)
        self._session = session
        self._device = tvm.runtime.device(session.device, 0)
        module = tvm.runtime.load_module(library)
        self._arguments = [tvm.runtime.tensor(a, self._device) for a in session.inputs]
        self._out = self._arguments[session.output]
        self._module, self._main = module, module["main"]
        self.poison()

    def poison(self) -> None:
        """Fill the output with NaN, so that a kernel that does not write all of it is found."""
        shape, kind = self._session.expected.shape, self._session.inputs[self._session.output].dtype
        fill = np.nan if np.issubdtype(kind, np.floating) else np.iinfo(kind).max
        self._out.copyfrom(np.full(shape, fill, kind))

    def warm_up(self) -> None:
        """Make one untimed call."""
        self._main(*self._arguments)
        self._device.sync()

    def time(self, calls: int) -> float:
        """Mean seconds of `calls` consecutive calls."""
        return self.times(calls, 1)[0]

    def times(self, calls: int, repeats: int) -> list[float]:
        """Mean seconds of `calls` consecutive calls, measured `repeats` times.

        Uses TVM's own timer of the device, which makes one more call first. Single calls on a CPU
        are timed here without this extra call, because they are used for long calls, which would
        take twice the time.
        """
        if calls == 1 and self._session.device == "cpu":
            return [_wall_s(lambda: self._main(*self._arguments)) for _ in range(repeats)]
        evaluator = self._module.time_evaluator("main", self._device, number=calls, repeat=repeats)
        return [float(seconds) for seconds in evaluator(*self._arguments).results]

    def verdict(self) -> str | None:
        """The error in the output, or None."""
        return _difference(self._out.numpy(), self._session.expected, self._session.bound)


class Reference:
    """A library function for the same task, timed in the same rounds as the candidates."""

    def __init__(self, session: Session, kind: str) -> None:
        from tilewright.tuner.tvm.references import reference_call

        self._session, self._kind = session, kind
        self._call = reference_call(kind, session.inputs)

    @classmethod
    def of(cls, session: Session, kind: str) -> Reference | None:
        """The library's call; None if its result differs from the result of this task.

        The call is chosen only by the accesses of the reduction. Whether later stages (a bias, an
        activation), the order of the arguments and their types also match is seen in the result.
        """
        try:
            reference = cls(session, kind)
            reference.time(1)
            wrong = reference.verdict()
        except Exception:  # the library does not accept these shapes or types
            return None
        return reference if wrong is None else None

    def warm_up(self) -> None:
        """Make one untimed call."""
        self._again(1)

    def time(self, calls: int) -> float:
        """Mean seconds of `calls` consecutive calls."""
        return _wall_s(lambda: self._again(calls)) / calls

    def _again(self, calls: int) -> None:
        from tilewright.tuner.tvm.references import wait_for_gpu

        for _ in range(calls):
            self._result = self._call()
        wait_for_gpu(self._kind)

    def verdict(self) -> str | None:
        """The error in the result of the last call, or None."""
        shape = self._session.expected.shape
        result = self._result
        on_host = np.asarray(result.cpu() if hasattr(result, "cpu") else result).reshape(shape)
        return _difference(on_host, self._session.expected, self._session.bound)


@contextmanager
def _ended_after(seconds: float | None) -> Iterator[None]:
    """End this process, which runs only one candidate, if the block uses more CPU seconds.

    The limit is not wall time, because a busy machine would then end good candidates.
    """
    signal.setitimer(signal.ITIMER_PROF, seconds or 0.0)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0.0)


def _wall_s(call: Callable[[], object]) -> float:
    """Seconds of one call in wall time."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _samples(
    kernel: Kernel, repeats: int, sample_s: float, first_s: float
) -> tuple[list[float], int]:
    """Samples of about `sample_s` seconds and the number of calls in each; `first_s` is the time of
    one call.

    If the first call was interrupted, the samples are too short and are measured again.
    """
    shortest = first_s
    while True:
        calls = max(1, int(np.ceil(sample_s / max(shortest, 1e-9))))
        samples = kernel.times(calls, repeats)
        if (shortest := min(samples)) * calls >= sample_s / 2:
            return samples, calls


def _calls(contender: Any, sample_s: float, first_s: float) -> int:
    """The number of calls that fill a sample. An interrupted call must not make samples too
    short."""
    shortest = min(first_s, contender.time(1))
    return max(1, int(np.ceil(sample_s / max(shortest, 1e-9))))


def _difference(found: np.ndarray, expected: np.ndarray, bound: float) -> str | None:
    """Compare with a bound on the error that does not depend on the scale of the values."""
    error = np.subtract(found, expected, dtype=np.float64)
    np.abs(error, out=error)
    if error.max() <= bound:  # this is false for NaN
        return None
    worst = int(np.argmax(np.where(np.isnan(error), np.inf, error)))
    place = ", ".join(str(int(i)) for i in np.unravel_index(worst, expected.shape))
    return (
        f"output[{place}] = {found.flat[worst]:.6g}, expected {expected.flat[worst]:.6g}, "
        f"error bound {bound:.3g}"
    )


def answer(session: Session, request: dict[str, Any]) -> Answer:
    """Process one request. An exception of the candidate becomes a failure."""
    try:
        return (
            session.interleave(request)
            if request["kind"] == "interleave"
            else (session.measure(request))
        )
    except Exception as error:
        lines = str(error).strip().splitlines()
        return {"failure": "run", "log": f"{type(error).__name__}: {lines[-1] if lines else ''}"}


def main(arguments: Sequence[str]) -> None:
    """Answer requests until there are no more. The argument is the descriptor of the channel."""
    import tvm  # noqa: F401 (before the first fork, so that no child imports it again)

    out, session = Channel(int(arguments[0])), None
    for request in out.each_json():
        if request["kind"] == "open":
            session = Session(request)
            out.send_json({"ready": True})
        elif session is not None and session.device == "cpu":
            contained(partial(answer, session, request), out, "the candidate")
        elif session is not None:
            out.send_json(answer(session, request))


if __name__ == "__main__":
    main(sys.argv[1:])
