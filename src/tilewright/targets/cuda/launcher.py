"""The launcher of a kernel: its parameters, and the code through which it is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.core.records import Argument

POINTERS = {
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "float32": "float",
    "float64": "double",
    "bool": "bool",
    "int8": "signed char",
    "uint8": "unsigned char",
    "int16": "short",
    "uint16": "unsigned short",
    "int32": "int",
    "uint32": "unsigned",
    "int64": "long long",
    "uint64": "unsigned long long",
}
"""The C++ type of elements of each type."""


def parameters(arguments: Sequence[Argument], sizes: Mapping[str, int]) -> str:
    """The declaration of a launcher's parameters: a pointer for each array, then the sizes.

    The sizes of the workload are the default values.
    """
    arrays = (f"{_pointer(a)}{a.name}" for a in arguments)
    return ", ".join([*arrays, *(f"int {name} = {size}" for name, size in sizes.items())])


def call(arguments: Sequence[Argument], sizes: Sequence[str]) -> str:
    """The function that calls `kernel` with an array of pointers and one of sizes.

    A parameter may be declared as any pointer, `const float (*A)[64]` as well as `const float *A`.
    """
    arrays = (f"TwArray{{arrays[{i}]}}" for i in range(len(arguments)))
    given = ", ".join([*arrays, *(f"(int)sizes[{i}]" for i in range(len(sizes)))])
    return (
        "#ifndef tw_given\n#define tw_given(at) at\n#endif\nstruct TwArray {\n  void *at;\n"
        "  template <class TwType>\n"
        "  operator TwType *() const { return (TwType *)tw_given(at); }\n};\n"
        'extern "C" void tw_call(void **arrays, const long long *sizes) {\n'
        f"  (void)sizes;\n  kernel({given});\n}}\n"
    )


def _pointer(argument: Argument) -> str:
    return f"{'const ' * (argument.role == 'input')}{POINTERS[argument.dtype]} *"
