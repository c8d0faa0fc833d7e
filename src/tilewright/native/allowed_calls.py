"""The external functions that a kernel may call."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet

MATHEMATICS = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "sqrt", "rsqrt", "cbrt", "sin",
    "cos", "sincos", "tan", "tanh", "sinh", "cosh", "asin", "acos", "atan", "atan2", "erf", "erfc",
    "fabs", "fmax", "fmin", "fma", "fmod", "floor", "ceil", "round", "trunc", "rint", "nearbyint",
    "lrint", "lround", "ldexp", "frexp", "scalbn", "copysign", "hypot",
)  # fmt: skip
"""The functions of math.h by their names for double. Those for float end with f."""
_MEMORY = "memcpy memmove memset memcmp bcmp"
_OF_THE_COMPILER = (
    "__divti3 __modti3 __udivti3 __umodti3 __divmodti4 __udivmodti4 __multi3 __ashlti3 __ashrti3 "
    "__lshrti3 __popcountdi2 __popcountti2 __clzdi2 __clzti2 __ctzdi2 __ctzti2 __ffsti2 "
    "__paritydi2 __parityti2 __mulsc3 __muldc3 __divsc3 __divdc3 __powisf2 __powidf2 __fixsfti "
    "__fixdfti __fixunssfti __fixunsdfti __floattisf __floattidf __floatuntisf __floatuntidf "
    "__extendhfsf2 __extendhfdf2 __truncsfhf2 __truncdfhf2 __truncsfbf2 __truncdfbf2"
)
"""Arithmetic functions of GCC's library that compilers call instead of generating inline code."""
_ALLOWED = frozenset(
    [f"{name}{suffix}" for name in MATHEMATICS for suffix in ("", "f")]
    + _MEMORY.split()
    + _OF_THE_COMPILER.split()
)
_VECTOR_CALLS = re.compile(r"_ZGV[bcdensv][NM](?:\d{1,2}|x)v{1,3}_(\w+)", re.ASCII)
"""The C library's mathematical functions on vectors, by the names of the vector ABIs."""
_THREAD_CALLS = re.compile(
    r"pthread_(create|join|self|equal|(mutex|cond|barrier|spin)_\w+)|sched_yield|"
    r"GOMP_(?!(alloc|free|target\w*|parallel\w*_(start|end))$)\w+|"
    r"omp_(get_(thread_num|(num|max)_threads|num_procs|(active_)?level|ancestor_thread_num|team_size)"
    r"|in_parallel|in_final|set_num_threads|set_dynamic|(init|set|unset|destroy)_lock)"
)
"""Further functions for kernels with several threads, whose system calls are filtered.

Of OpenMP's functions, only those are allowed that leave nothing which a later call could find. The
harness restores what the two settings change.
"""


def mixes_threads(names: AbstractSet[str]) -> bool:
    """Whether a kernel that calls these functions creates threads and also uses OpenMP, whose
    threads and settings remain from call to call.
    """
    return "pthread_create" in names and any(name.startswith(("GOMP_", "omp_")) for name in names)


def refused_call(name: str, threads: int) -> str | None:
    """The reason why a kernel with this number of threads may not call the function, as a sentence,
    or None.
    """
    vector = _VECTOR_CALLS.fullmatch(name)
    if (vector.group(1) if vector else name) in _ALLOWED:
        return None
    if name == "pthread_detach":
        return (
            "the kernel calls pthread_detach, but each thread must end before the kernel returns: "
            "call pthread_join instead."
        )
    if name.startswith("omp_") and threads > 1 and not _THREAD_CALLS.fullmatch(name):
        return (
            f"the kernel calls {name}. Of OpenMP's functions, a kernel may call only those that "
            "return or set the number of threads or return the number of the calling thread, and "
            "omp_init_lock, omp_set_lock, omp_unset_lock and omp_destroy_lock. A later call could "
            "find what others leave."
        )
    if _THREAD_CALLS.fullmatch(name):
        if threads > 1:
            return None
        return (
            f"the kernel calls {name}, but may use only one thread. To allow more threads, declare "
            "them in a target file (docs/targets/host-c.md)."
        )
    return (
        f"the kernel calls {name}, which it does not define: in addition to its own functions, it "
        "may call memcpy, memmove, memset, memcmp and these functions of math.h for float and "
        "double: "
        f"{', '.join(MATHEMATICS)}."
    )
