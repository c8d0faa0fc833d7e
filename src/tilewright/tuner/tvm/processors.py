"""Processors that LLVM knows, and whether code for one runs on this machine."""

from __future__ import annotations

import difflib
import platform
from collections.abc import Mapping
from typing import Any

from tilewright.core.errors import ConfigurationError
from tilewright.tuner.detect import detect_cpu

# Names of features that compilers use for instructions of a kernel. Others (protection keys,
# monitors, cache control) concern the operating system, and most virtual machines hide them.
_COMPUTING = (
    *("sse", "ssse", "avx", "amx-", "fma", "f16c", "xop", "tbm"),
    *("bmi", "adx", "lzcnt", "popcnt", "movbe"),
)
_ALIASES = {"amd64": "x86_64", "arm64": "aarch64", "ppc64le": "powerpc64le"}
_ALIASES |= dict.fromkeys(("i486", "i586", "i686"), "i386")
_ALIASES |= dict.fromkeys(("armv6", "armv7", "armv7a", "armv7l", "armv8"), "arm")


def host_fields() -> dict[str, Any]:
    """The fields of a target for this processor: LLVM's name of it, and the features it lacks.

    A virtual machine may hide instructions that processors with this name have.
    """
    from tvm.target import Target, codegen

    fields = {"kind": "llvm", "mcpu": str(codegen.llvm_get_system_cpu())}
    missing = _missing_features(Target(fields))
    return {**fields, "mattr": [f"-{name}" for name in missing]} if missing else fields


def check_processor(fields: Mapping[str, Any]) -> None:
    """`ConfigurationError` unless LLVM knows the triple and the processor in the fields of an LLVM
    target.

    This must be called before a target is created from the fields, because TVM logs unknown
    processors and ends the whole process when it looks up processors of an unknown architecture.
    """
    from tvm.target import Target, codegen

    triple, mcpu = fields.get("mtriple"), fields.get("mcpu")
    described = {"kind": "llvm"}
    if isinstance(triple, str):
        architectures = [str(name) for name in codegen.llvm_get_targets()]
        if _architecture(triple) not in architectures:
            named = triple.split("-")[0]
            near = difflib.get_close_matches(named, architectures, n=3, cutoff=0.5)
            raise ConfigurationError(
                f"--target: mtriple {triple!r}: the installed TVM cannot compile for the "
                f"architecture {named!r}: did you mean {' or '.join(near or [platform.machine()])}?"
            )
        described["mtriple"] = triple
    if isinstance(mcpu, str):
        known = [str(name) for name in codegen.llvm_get_cpu_archlist(Target(described))]
        if mcpu not in known:
            near = difflib.get_close_matches(mcpu, known, n=3) or known[:3]
            raise ConfigurationError(
                f"--target: LLVM knows no processor {mcpu!r} for {triple or platform.machine()}: "
                f"did you mean {' or '.join(near)}?"
            )


def why_foreign(target: Any) -> str | None:
    """Why code for an LLVM target does not run on this machine; None if it runs."""
    attributes = target.attrs
    triple = str(attributes.get("mtriple", ""))
    here = f"{platform.machine()} {platform.system()}"
    if triple and not _is_native(triple):
        return f"code for {triple} does not run on this machine ({here})"
    missing = _missing_features(target)
    if not missing:
        return None
    more = f" and {len(missing) - 4} more" if len(missing) > 4 else ""
    return (
        f"code for {attributes.get('mcpu') or 'these mattr'} does not run on this processor "
        f"({detect_cpu().name}), which lacks {', '.join(missing[:4])}{more}"
    )


def _missing_features(target: Any) -> list[str]:
    """Features of an LLVM target that code may use and this processor is known to lack, sorted."""
    from tvm.target import codegen

    present = _host_features()
    wanted = {str(name) for name in codegen.llvm_get_cpu_features(target)}
    return sorted(n for n in wanted if n.startswith(_COMPUTING) and present.get(n) is False)


def _is_native(triple: str) -> bool:
    """Whether a triple names this machine's architecture and, if it names one, its operating
    system."""
    _, *rest = triple.split("-")
    same = _architecture(triple) == _architecture(platform.machine())
    return same and (not rest or platform.system().lower() in rest)


def _architecture(triple: str) -> str:
    """LLVM's name of a triple's architecture, for any of the usual names."""
    name = triple.split("-")[0]
    return _ALIASES.get(name, name)


def _host_features() -> dict[str, bool]:
    """Instruction-set features that LLVM detects, and whether this processor has each of them."""
    import tvm_ffi

    found = tvm_ffi.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")()
    return {str(name): bool(present) for name, present in found.items()}
