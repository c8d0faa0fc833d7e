"""Calls PyTorch on a GPU as `program.cu` calls a kernel: the same commands, values and hashes.

`baselines.py` starts it with any Python that has PyTorch, so it imports nothing else. The last line
of the file calls `main` with a description of the computation.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
import types
from pathlib import Path
from typing import Any

_ALIGNMENT, _FIRST, _SECOND = 256, 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53
_ROLE_WRITTEN = 1


def _wrapped(number: int) -> int:
    """A 64-bit unsigned number as the signed number with the same bits, because PyTorch has only
    signed ones."""
    number &= (1 << 64) - 1
    return number - (1 << 64) if number >> 63 else number


class Program:
    """The arrays of all copies, and the computation on them."""

    def __init__(self, torch: Any, device: str, job: dict[str, Any], descriptor: int) -> None:
        self._torch, self._device, self._job = torch, device, job
        self._from = os.fdopen(descriptor, "rb")
        self._to = os.fdopen(os.dup(descriptor), "wb")
        self._arrays: list[list[Any]] = []
        self._sizes: list[int] = []
        self._roles: list[int] = []
        self._free = 0
        torch.set_grad_enabled(False)
        if "model" in job:
            function = _model(torch, device, job)
        else:
            function = eval(
                f"lambda {', '.join(job['given'])}: {job['computes']}", {"torch": torch}
            )
        self._call = torch.compile(function) if job["compiled"] else function
        for owner in (torch.backends.cuda.matmul, torch.backends.cudnn):
            owner.allow_tf32 = job["tf32"]

    def serve(self) -> None:
        """Answer commands until the other side closes the connection."""
        for line in self._from:
            words = line.decode().split()
            if words:
                getattr(self, f"do_{words[0]}")(*map(_number, words[1:]))

    def _answer(self, words: str) -> None:
        self._to.write(f"{words}\n".encode())
        self._to.flush()

    def _idle(self) -> None:
        if self._device == "cuda":
            self._torch.cuda.synchronize()

    def do_open(self, count: int, *numbers: int) -> None:
        """Receive the sizes and roles of the arrays, and answer with the properties of the
        device."""
        self._sizes = list(numbers[:count])
        self._roles = list(numbers[count : 2 * count])
        facts: Any = None
        self._free = 1 << 32
        if self._device == "cuda":
            facts = self._torch.cuda.get_device_properties(0)
            self._free = self._torch.cuda.mem_get_info()[0]
        names = ("multi_processor_count", "clock_rate", "L2_cache_size", "memory_clock_rate",
                 "memory_bus_width")  # fmt: skip
        self._answer(" ".join(["device", *(str(int(getattr(facts, n, 0))) for n in names),
                               str(self._free)]))  # fmt: skip

    def do_copies(self, count: int) -> None:
        """Allocate this number of copies of the inputs, in whole words. The calls create the
        outputs."""
        words = [-(-size // 4) for size in self._sizes]
        self._arrays = [
            [self._torch.zeros(n, dtype=self._torch.int32, device=self._device) for n in words]
            for _ in range(count)
        ]
        self._answer(f"copies {count}")

    def do_upload(self, index: int, copy: int) -> None:
        """Receive the bytes of one array."""
        size = self._sizes[index]
        data = bytearray(self._from.read(size)) + bytes(-size % 4)
        self._arrays[copy][index] = self._torch.frombuffer(data, dtype=self._torch.int32).to(
            self._device
        )
        self._answer("uploaded")

    def do_spread(self, first: int, end: int) -> None:
        """Copy the arrays of copy 0 to other copies."""
        for arrays in self._arrays[first:end]:
            for index, array in enumerate(self._arrays[0]):
                arrays[index] = array.clone()
        self._answer("spread")

    def do_draw(self, index: int, copies: int, key: int, scale: float) -> None:
        """Draw the same floats as `draw_floats` in program.cu."""
        torch = self._torch
        places = torch.arange(self._sizes[index] // 4, device=self._device)
        mixed = self._mixed(places)
        for copy in range(copies):
            x = self._mixed(mixed + _wrapped(key + copy))
            total = sum((x >> shift) & 0xFFFF for shift in (0, 16, 32, 48))
            values = (total - 131070).to(torch.float32)
            values = values * torch.tensor(scale, dtype=torch.float32, device=self._device)
            self._arrays[copy][index] = values.view(torch.int32)
        self._answer("drawn")

    def do_poison(self, copies: int) -> None:
        """Fill the outputs with NaN."""
        for arrays in self._arrays[:copies]:
            for index, role in enumerate(self._roles):
                if role == _ROLE_WRITTEN:
                    arrays[index] = self._torch.full_like(arrays[index], -1)
        self._answer("poisoned")

    def do_batch(self, first: int, count: int) -> None:
        """Make the calls after the command `go`."""
        given = [i for i, role in enumerate(self._roles) if role != _ROLE_WRITTEN]
        written = next(i for i, role in enumerate(self._roles) if role == _ROLE_WRITTEN)
        inputs = [
            [arrays[i].view(self._torch.float32).view(self._job["shapes"][i]) for i in given]
            for arrays in self._arrays[first : first + count]
        ]
        self._idle()
        self._answer("ready")
        if self._from.readline() != b"go\n":
            sys.exit(3)
        begun = time.perf_counter()
        results = [self._call(*values) for values in inputs]
        self._idle()
        self._answer(f"done {(time.perf_counter() - begun) * 1e3:.9g}")
        for copy, result in enumerate(results, first):
            held = result.contiguous().view(-1)
            self._arrays[copy][written] = held.view(self._torch.int32)

    def do_hash(self, index: int, copy: int) -> None:
        """The same hash as `hash_words` in program.cu."""
        words = self._arrays[copy][index].to(self._torch.int64) & 0xFFFFFFFF
        places = self._torch.arange(len(words), device=self._device) << 32
        total = int(self._mixed(places ^ words).sum())
        self._answer(f"hash {total & (1 << 64) - 1}")

    def do_download(self, index: int, copy: int) -> None:
        """Send the bytes of one array."""
        data = self._arrays[copy][index].cpu().numpy().tobytes()
        self._to.write(data[: self._sizes[index]])
        self._to.flush()

    def do_free(self) -> None:
        """Report the memory that was free at the start, because PyTorch does not return memory to
        the device."""
        self._answer(f"free {self._free}")

    def _mixed(self, x: Any) -> Any:
        for factor in (_FIRST, _SECOND):
            x = (x ^ ((x >> 33) & 0x7FFFFFFF)) * _wrapped(factor)
        return x ^ ((x >> 33) & 0x7FFFFFFF)


def _model(torch: Any, device: str, job: dict[str, Any]) -> Any:
    """A function that calls a problem's `Model` with its inputs. The arrays of the model come after
    the inputs."""
    problem = types.ModuleType("problem")
    exec(compile(job["model"], "problem.py", "exec"), problem.__dict__)
    model = problem.Model(*problem.get_init_inputs()).to(device)

    def call(*arrays: Any) -> Any:
        values = iter(arrays)
        inputs = [next(values) if i is None else i["value"] for i in job["inputs"]]
        held = dict(zip(job["state"], values, strict=True))
        return torch.func.functional_call(model, held, tuple(inputs)) if held else model(*inputs)

    return call


def _number(word: str) -> int | float:
    return int(word) if word.lstrip("-").isdigit() else float(word)


def main(job: dict[str, Any]) -> None:
    """Serve the connection whose descriptor is the only argument."""
    for name in ("HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        folder = Path.cwd() / name
        folder.mkdir(exist_ok=True)
        os.environ[name] = str(folder)
    torch: Any = importlib.import_module("torch")
    if job["device"] == "cuda" and not torch.cuda.is_available():
        said = b"failed pytorch 3 this PyTorch cannot use the GPU: install one built for CUDA\n"
        os.write(int(sys.argv[1]), said)
        sys.exit(1)
    Program(torch, job["device"], job, int(sys.argv[1])).serve()
