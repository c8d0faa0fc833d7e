"""The meaning of `--target`: a TVM target that this TVM can compile for, and its device model."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from tilewright.core.errors import ConfigurationError, InputError, UnknownNameError
from tilewright.tuner.detect import detect_cpu, detect_gpu
from tilewright.tuner.device import DeviceModel, GpuDevice, device_names, named_device
from tilewright.tuner.tvm.loading import require_tvm
from tilewright.tuner.tvm.processors import check_processor, host_fields, why_foreign

_FORMS = 'cpu, cuda, nvidia/NAME or a JSON object like {"kind": "llvm", "mcpu": "znver4"}'


@dataclass(frozen=True)
class TuningTarget:
    """A target to compile for, and the device on which kernels are measured.

    `present` says whether kernels can run here; code can be generated for a GPU that this machine
    does not have, but not tuned. `instead` names the GPU of this machine if it is another one.
    `foreign` says why code for a processor does not run on this one.
    """

    target: Any
    device: DeviceModel
    threads: int
    present: bool
    instead: str | None = None
    foreign: str | None = None

    def require_present(self) -> None:
        """`InputError` unless this machine has the device, so that kernels can be measured."""
        if self.present:
            return
        remedy = "run this on a machine that has it, or leave --target out for this processor"
        if self.instead is not None:
            remedy = f"this machine has {self.instead}: give --target cuda to tune for that"
        reason = f"the device of --target {self.device.name} is not in this machine"
        if self.foreign is not None:
            reason = f"--target: {self.foreign}"
        raise InputError(f"{reason}, so nothing can be measured: {remedy}.")

    @property
    def is_gpu(self) -> bool:
        """Whether this is a CUDA target."""
        return isinstance(self.device, GpuDevice)

    @property
    def device_kind(self) -> str:
        """TVM's name of the kind of device on which kernels run."""
        return "cuda" if self.is_gpu else "cpu"

    @property
    def spare_cores(self) -> int:
        """Number of cores that compile while kernels are measured; 0 if compiling would disturb
        measurements."""
        return max(detect_cpu().cores - (0 if self.is_gpu else self.threads), 0)

    @property
    def text(self) -> str:
        """The target as canonical JSON, under which results are stored."""
        exported = {key: _plain(value) for key, value in dict(self.target.export()).items()}
        return json.dumps({k: exported[k] for k in sorted(exported)}, sort_keys=True)


def parse_target(text: str, threads: int | None = None) -> TuningTarget:
    """The target with the name `text`, with `threads` CPU threads (1 if not given).

    Raises `InputError` for a text that is not a target and for threads of a GPU, `UnknownNameError`
    for an unknown device, and `ConfigurationError` for a target that this TVM cannot compile for.
    """
    require_tvm()
    target = _parsed(text, threads or 1)
    if target.is_gpu and threads is not None:
        raise InputError(
            f"--threads {threads}: these are threads of a CPU, and --target {target.device.name} "
            "is a GPU. Leave --threads out."
        )
    return target


def _parsed(text: str, threads: int) -> TuningTarget:
    if text == "cpu":
        return _cpu(host_fields(), threads)
    if text == "cuda":
        found = detect_gpu()
        if found is None:
            raise InputError(
                "--target cuda: this machine has no CUDA device or driver. Give a device to "
                f"generate code for, such as nvidia/h100 (known: {', '.join(device_names())})."
            )
        return _gpu(found, found)
    if text.startswith("nvidia/"):
        device = named_device(text)
        if not isinstance(device, GpuDevice):
            raise UnknownNameError("GPU", text, [f"nvidia/{name}" for name in device_names()])
        return _gpu(device, detect_gpu())
    if text.lstrip().startswith("{"):
        return _described(text, threads)
    known = ["cpu", "cuda", *(f"nvidia/{name}" for name in device_names())]
    raise UnknownNameError("target", text, known, f"Expected {_FORMS}.")


def _described(text: str, threads: int) -> TuningTarget:
    try:
        fields = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"--target is not valid JSON ({error.msg}): expected {_FORMS}.") from error
    kind = fields.get("kind")
    if kind == "llvm":
        return _cpu(fields, threads)
    if kind == "cuda":
        device, found = None, detect_gpu()
        if isinstance(name := fields.pop("device", None), str):
            device = named_device(name)
        device = device or found
        if not isinstance(device, GpuDevice):
            raise InputError(
                "--target: no GPU was found on this machine. To name the GPU that is assumed, add "
                f'"device" with one of {", ".join(device_names())}.'
            )
        return _gpu(device, found, fields)
    raise ConfigurationError(
        f'--target: kind {kind!r} cannot be tuned for: expected "llvm" or "cuda".'
    )


def _cpu(fields: dict[str, Any], threads: int) -> TuningTarget:
    available = detect_cpu()
    if threads > available.cores:
        raise InputError(
            f"--threads {threads}: this process may use {available.cores} cores. Give at most that."
        )
    check_processor(fields)
    target = _target({**fields, "num-cores": threads})
    foreign = why_foreign(target)
    device = detect_cpu(cores=threads)
    return TuningTarget(target, device, threads, present=foreign is None, foreign=foreign)


def _gpu(
    device: GpuDevice, found: GpuDevice | None, fields: dict[str, Any] | None = None
) -> TuningTarget:
    described = {
        "kind": "cuda",
        "arch": device.arch,
        "max_threads_per_block": device.threads_per_block,
        "max_shared_memory_per_block": device.shared_bytes_per_block,
        "thread_warp_size": device.warp_size,
        "registers_per_block": device.registers_per_sm,
        "host": host_fields(),
        **(fields or {}),
    }
    if isinstance(host := described["host"], dict) and host.get("kind") == "llvm":
        check_processor(host)
    present = found is not None and _same(device, found)
    instead = None if found is None or present else found.name
    return TuningTarget(_target(described), device, 1, present, instead)


def _same(device: GpuDevice, found: GpuDevice) -> bool:
    """Whether `device` is the one of this machine. Drivers add other words to the model name.

    Devices of one architecture can run the same code, but their measurements differ.
    """
    if device == found:
        return True
    words, theirs = (set(re.split(r"[\s-]+", gpu.name.lower())) for gpu in (device, found))
    same_model = bool(words & theirs & set(device_names()))
    return same_model and (device.arch, device.sms) == (found.arch, found.sms)


def _target(fields: dict[str, Any]) -> Any:
    from tvm.target import Target

    try:
        return Target(fields)
    except Exception as error:
        reason = str(error).strip().splitlines()[-1].split(". ")[0]
        raise ConfigurationError(
            f"--target: TVM cannot compile for {json.dumps(fields)} ({reason}): expected {_FORMS}."
        ) from error


def _plain(value: Any) -> Any:
    """A TVM attribute as a value that JSON can represent."""
    if isinstance(value, bool | int | float | str) or value is None:
        return value
    if hasattr(value, "items"):
        return {str(key): _plain(item) for key, item in value.items()}
    if hasattr(value, "__iter__"):
        return [_plain(item) for item in value]
    return int(value) if hasattr(value, "__int__") else str(value)
