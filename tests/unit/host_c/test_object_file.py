"""What a compiled kernel may hold, and what becomes of it: no toolchain has a part in this."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from elf_objects import (
    AARCH64,
    ABSOLUTE,
    ALLOC,
    COMMON,
    COMMON_SECTION,
    DYNAMIC,
    EXECUTE,
    FILE,
    FINI_ARRAY,
    FUNCTION,
    GLOBAL,
    GROUP,
    INIT_ARRAY,
    KERNEL,
    LOCAL,
    NOBITS,
    NOTE,
    OBJECT,
    PROGBITS,
    REL,
    RESOLVED,
    RETURN,
    SECTION_SYMBOL,
    SYMTAB,
    TEXT,
    THREAD_LOCAL,
    TLS,
    WEAK,
    WRITE,
    Name,
    Part,
    Written,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.native.image import BASE, MOST_CALLS, PAGE, linked
from tilewright.native.object_file import MAX_ALIGNMENT, MAX_MEMORY, UnfitError, with_addresses
from tilewright.native.relocations import KINDS, jump_through

ABS64, PC32, PLT32, GOTPCREL, TPOFF32, IRELATIVE, COPY, REX_GOTPCRELX = 1, 2, 4, 9, 23, 37, 5, 42
PLAIN = Written()


def refusal(written: Written | bytes, threads: int = 1) -> str:
    data = written if isinstance(written, bytes) else written.bytes()
    with pytest.raises(UnfitError) as refused:
        linked(data, threads)
    return str(refused.value)


def relocated(kind: int, name: Name, addend: int = 0, offset: int = 0) -> Written:
    """A kernel with one relocation to a symbol."""
    return Written((replace(TEXT, relocations=[(offset, kind, 2, addend)]),), (KERNEL, name))


def test_a_plain_kernel_is_one_page_of_code() -> None:
    image = linked(PLAIN.bytes(), 1)
    assert image.code == (RETURN * 16).ljust(PAGE, b"\0")
    assert (image.constants, image.data, image.zeros, image.calls) == (b"", b"", 0, ())
    assert image.entry == BASE


def test_code_constants_data_and_zeros_get_pages_of_their_own() -> None:
    image = linked(
        PLAIN.with_parts(
            Part(".bss", kind=NOBITS, flags=ALLOC | WRITE, size=PAGE + 1),
            Part(".data", b"d", ALLOC | WRITE),
            Part(".rodata.cst32", b"c", alignment=32),
            Part(".text.cold", RETURN, ALLOC | EXECUTE),
            Part(".comment", b"ignored", 0),
            Part(".note.gnu.property", b"left out", ALLOC, NOTE),
            Part(".eh_frame", b"left out", ALLOC),
        ).bytes(),
        1,
    )
    assert image.code[16:17] == RETURN
    assert (image.constants[0], image.data[0]) == (ord("c"), ord("d"))
    assert [len(p) for p in (image.code, image.constants, image.data)] == [PAGE] * 3
    assert image.zeros == 2 * PAGE
    assert b"ignored" not in image.contents
    assert b"left out" not in image.contents


@pytest.mark.parametrize("kind", [PC32, PLT32])
def test_a_call_of_a_library_goes_through_the_table_after_the_image(kind: int) -> None:
    image = linked(relocated(kind, Name("expf"), -4, offset=4).bytes(), 1)
    assert image.calls == ("expf",)
    (distance,) = struct.unpack_from("<i", image.code, 4)
    jump = 8 + distance
    assert image.code[jump : jump + 2] == b"\xff\x25"  # jmp *slot(%rip)
    (slot,) = struct.unpack_from("<i", image.code, jump + 2)
    assert jump + 6 + slot == PAGE  # right after the only page


def test_an_address_in_memory_is_that_of_the_table_or_of_a_constant() -> None:
    outside = linked(relocated(REX_GOTPCRELX, Name("expf"), -4).bytes(), 1)
    assert struct.unpack_from("<i", outside.code) == (PAGE - 4,)
    own = linked(relocated(GOTPCREL, Name("mine", 1, 8, FUNCTION), -4).bytes(), 1)
    assert struct.unpack_from("<i", own.code) == (PAGE - 4,)
    assert struct.unpack_from("<Q", own.constants) == (BASE + 8,)
    assert own.calls == ()


def test_an_absolute_address_is_that_of_the_image() -> None:
    data = Part(".data", bytes(16), ALLOC | WRITE, relocations=[(8, ABS64, 1, 3)])
    assert struct.unpack_from("<Q", linked(PLAIN.with_parts(data).bytes(), 1).data, 8) == (
        BASE + 3,
    )


def test_symbols_that_mean_nothing_to_the_image_may_be_there() -> None:
    written = PLAIN.with_parts(Part(".debug_info", b"x", 0))
    written = written.with_names(
        Name("kernel.c", ABSOLUTE, 0, FILE, LOCAL),
        Name("", 1, 0, SECTION_SYMBOL, LOCAL),
        Name("", 2, 0, SECTION_SYMBOL, LOCAL),
        Name("kernel", 1, 4, FUNCTION, LOCAL),
        Name("never used elsewhere"),
    )
    assert linked(written.bytes(), 1).entry == BASE


BEFORE = "would run before it is called"
SECTIONS = {
    "an array of initialisers": (Part(".init_array", bytes(8), ALLOC | WRITE, INIT_ARRAY), BEFORE),
    "an array of finalisers": (Part(".fini_array", bytes(8), ALLOC | WRITE, FINI_ARRAY), BEFORE),
    "one by a name of data": (Part(".data.x", bytes(8), ALLOC | WRITE, INIT_ARRAY), BEFORE),
    "another by a name of data": (Part(".data.x", bytes(8), 3, FINI_ARRAY), BEFORE),
    "by its name alone": (Part(".init_array.5", bytes(8), ALLOC | WRITE), BEFORE),
    "code that begins": (Part(".init", RETURN, ALLOC | EXECUTE), BEFORE),
    "code that ends": (Part(".fini", RETURN, ALLOC | EXECUTE), BEFORE),
    "old constructors": (Part(".ctors", bytes(8), ALLOC | WRITE), BEFORE),
    "a dynamic table": (Part(".dynamic", bytes(16), ALLOC | WRITE, DYNAMIC), "'.dynamic'"),
    "one by another kind": (Part(".dynamic", bytes(16), ALLOC | WRITE), "'.dynamic'"),
    "an interpreter": (Part(".interp", b"/bin/sh\0"), "'.interp'"),
    "relocations that run code": (Part(".rela.iplt", bytes(24)), "'.rela.iplt'"),
    "another loader's table": (Part(".got.plt", bytes(24), ALLOC | WRITE), "'.got.plt'"),
    "a name of its own": (Part("mine", bytes(8)), "'mine'"),
    "a name that begins like one": (Part(".database", bytes(8)), "'.database'"),
    "a name over two lines": (Part(".data\n.x", bytes(8)), "is not allowed"),
    "writable code": (Part(".text.w", RETURN, ALLOC | EXECUTE | WRITE), "'.text.w'"),
    "code that is not there": (Part(".text.z", kind=NOBITS, flags=6, size=8), "'.text.z'"),
    "thread-local data": (Part(".tdata", bytes(8), ALLOC | WRITE | TLS), "thread-local"),
    "a group": (Part(".text.g", RETURN, ALLOC | EXECUTE | GROUP), "'.text.g'"),
    "an unknown flag": (Part(".data.f", b"x", ALLOC | 1 << 28), "'.data.f'"),
    "an unknown kind": (Part(".data.k", b"x", ALLOC, 0x6FFFFFF0), "'.data.k'"),
    "an odd alignment": (Part(".data.a", b"x", alignment=3), "alignment of 3"),
    "a large alignment": (Part(".data.a", b"x", alignment=2 * MAX_ALIGNMENT), "alignment"),
    "too much memory": (Part(".bss", kind=NOBITS, flags=3, size=MAX_MEMORY), "1024 MiB"),
    "all memory there is": (Part(".bss", kind=NOBITS, flags=3, size=(1 << 64) - 16), "MiB"),
    "more than the file": (Part(".data", b"x", size=1 << 20), "truncated"),
    "a second table of symbols": (Part(".symtab", b"", 0, SYMTAB), "exactly one symbol table"),
}


@pytest.mark.parametrize("what", SECTIONS)
def test_a_section_is_refused(what: str) -> None:
    part, says = SECTIONS[what]
    assert says in refusal(PLAIN.with_parts(part))


SYMBOLS = {
    "a resolver": (Name("chosen", 1, 0, RESOLVED), BEFORE),
    "a thread-local variable": (Name("own", 1, 0, THREAD_LOCAL), "thread-local"),
    "one that a linker places": (Name("common", COMMON_SECTION, 4, OBJECT), "no section"),
    "one of that kind": (Name("common", 1, 4, COMMON), "not allowed"),
    "an absolute address": (Name("absolute", ABSOLUTE, 4, OBJECT), "no section"),
    "one after its section": (Name("after", 1, 17, OBJECT), "after its section"),
    "one of a section that is not there": (Name("nowhere", 99, 0, OBJECT), "no section"),
    "an unknown kind": (Name("odd", 1, 0, 13), "not allowed"),
    "one for the loader alone": (Name("unique", 1, 0, OBJECT, 10), "not allowed"),
    "a second kernel": (Name("kernel", 1, 4, FUNCTION, WEAK), "named kernel"),
}


@pytest.mark.parametrize("what", SYMBOLS)
def test_a_symbol_is_refused(what: str) -> None:
    name, says = SYMBOLS[what]
    assert says in refusal(PLAIN.with_names(name))


@pytest.mark.parametrize(
    "name",
    [
        Name("kernel", 1, 0, FUNCTION, LOCAL),
        Name("kernel", 1, 0, OBJECT),
        Name("kernel", 2, 0, FUNCTION),
        Name("kernel", 0, 0, FUNCTION),
        Name("Kernel", 1, 0, FUNCTION),
    ],
)
def test_what_is_called_must_be_a_visible_function_of_the_code(name: Name) -> None:
    written = Written((TEXT, Part(".data", bytes(8), ALLOC | WRITE)), (name,))
    assert "named kernel" in refusal(written)


@pytest.mark.parametrize("kind", [0, COPY, TPOFF32, IRELATIVE, 10, 11, 6, 7, 8, 16, 1032])
def test_a_relocation_of_another_kind_is_refused(kind: int) -> None:
    assert f"({kind})" in refusal(relocated(kind, Name("data", 1)))


@pytest.mark.parametrize("machine", KINDS)
def test_no_kind_needs_the_system_s_loader(machine: str) -> None:
    """GLOB_DAT, JUMP_SLOT, COPY, RELATIVE, IRELATIVE and those of threads, by both machines."""
    for_loaders = {5, 6, 7, 8, 16, 17, 18, 23, 36, 37, *range(1024, 1033), *range(512, 574)}
    assert not for_loaders & set(KINDS[machine])


@pytest.mark.parametrize(
    "name", ["fork", "system", "dlopen", "syscall", "mprotect", "_ZGVdN8v_fork"]
)
def test_a_function_that_is_not_on_the_list_is_refused(name: str) -> None:
    assert f"calls {name}," in refusal(relocated(PLT32, Name(name)))
    assert f"calls {name}," in refusal(relocated(GOTPCREL, Name(name, binding=WEAK)))


@pytest.mark.parametrize("name", ["pthread_create", "GOMP_parallel", "omp_get_thread_num"])
def test_functions_of_threads_are_for_kernels_that_may_have_them(name: str) -> None:
    written = relocated(PLT32, Name(name))
    assert "may use only one thread" in refusal(written)
    assert linked(written.bytes(), 2).calls == (name,)


def test_functions_of_openmp_that_leave_something_are_refused() -> None:
    for name in ("omp_set_schedule", "omp_test_lock", "omp_alloc"):
        assert f"calls {name}. Of OpenMP" in refusal(relocated(PLT32, Name(name)), threads=2)
    for name in ("GOMP_alloc", "GOMP_parallel_start", "GOMP_target_ext"):
        assert f"calls {name}," in refusal(relocated(PLT32, Name(name)), threads=2)


@pytest.mark.parametrize(
    "name", ["memcpy", "bcmp", "sincosf", "tanh", "_ZGVdN8v_expf", "_ZGVnN4v_sinf", "__udivti3"]
)
def test_functions_of_the_list_may_be_called(name: str) -> None:
    assert linked(relocated(PLT32, Name(name)).bytes(), 1).calls == (name,)


def test_a_relocation_stays_in_its_section_and_in_reach() -> None:
    assert linked(relocated(PC32, Name("x", 1), offset=12).bytes(), 1)
    assert "outside" in refusal(relocated(PC32, Name("x", 1), offset=13))
    assert "outside" in refusal(relocated(PC32, Name("x", 1), offset=(1 << 64) - 4))
    assert "cannot be reached" in refusal(relocated(PC32, Name("x", 1), 1 << 40))


def test_relocations_of_other_forms_are_refused() -> None:
    one = relocated(PC32, Name("x", 1))
    assert "form" in refusal(replace(one, relocation_kind=REL))
    assert "form" in refusal(replace(one, relocation_bytes=16))
    missing = Written((replace(TEXT, relocations=[(0, PC32, 7, 0)]),))
    assert "refers to something outside" in refusal(missing)
    local = Written(
        (replace(TEXT, relocations=[(0, PC32, 2, 0)]),), (KERNEL, Name("x", 0, binding=LOCAL))
    )
    assert "refers to something outside" in refusal(local)


def test_more_functions_than_a_kernel_can_have_use_for_are_refused() -> None:
    names = [Name(f"_ZGVdN{i % 100}{'v' * (1 + i // 100)}_expf") for i in range(MOST_CALLS + 1)]
    text = replace(TEXT, relocations=[(0, PC32, 2 + i, 0) for i in range(len(names))])
    assert f"more than {MOST_CALLS}" in refusal(Written((text,), (KERNEL, *names)))


@pytest.mark.parametrize(
    "written",
    [
        replace(PLAIN, kind=2),
        replace(PLAIN, kind=3),
        replace(PLAIN, bits=1),
        replace(PLAIN, order=2),
        replace(PLAIN, machine=3),
        b"",
        b"\x7fELF",
        b"#!/bin/sh\n" + bytes(100),
    ],
)
def test_other_files_are_refused(written: Written | bytes) -> None:
    refusal(written)


@pytest.mark.parametrize(
    ("kind", "there", "target", "word"),
    [
        (283, 0x9400_0000, BASE + 8, 0x9400_0002),  # bl
        (282, 0x1400_0000, BASE - 4, 0x17FF_FFFF),  # b
        (280, 0x5400_0000, BASE + 16, 0x5400_0080),  # b.eq
        (279, 0x3600_0000, BASE + 8, 0x3600_0040),  # tbz
        (274, 0x1000_0000, BASE + 9, 0x3000_0040),  # adr
        (275, 0x9000_0000, BASE + 0x1234, 0xB000_0000),  # adrp
        (311, 0x9000_0000, BASE + 0x5678, 0xB000_0020),
        (277, 0x9100_0000, BASE + 0x123, 0x9104_8C00),  # add
        (278, 0x3940_0000, BASE + 0x123, 0x3944_8C00),  # ldrb
        (284, 0x7940_0000, BASE + 0x124, 0x7942_4800),  # ldrh
        (285, 0xB940_0000, BASE + 0x124, 0xB941_2400),  # ldr w
        (286, 0xF940_0000, BASE + 0x128, 0xF940_9400),  # ldr x
        (299, 0x3DC0_0000, BASE + 0x120, 0x3DC0_4800),  # ldr q
        (312, 0xF940_0000, BASE + 0x128, 0xF940_9400),
        (261, 0, BASE - 2, 0xFFFF_FFFE),
        (260, 0, BASE - 2, 0xFFFF_FFFF_FFFF_FFFE),
        (257, 0, BASE + 2, BASE + 2),
    ],
)
def test_words_of_aarch64(kind: int, there: int, target: int, word: int) -> None:
    """As GNU ld writes them."""
    assert KINDS["aarch64"][kind].compute(there, target, BASE) == word


def test_a_call_of_a_library_on_aarch64() -> None:
    adrp, load, branch, stop = struct.unpack("<4I", jump_through("aarch64", BASE, BASE + 0x2128))
    assert (adrp, load, branch, stop) == (0xD000_0010, 0xF940_9611, 0xD61F_0220, 0xD420_0000)
    written = replace(relocated(283, Name("expf")), machine=AARCH64)
    assert linked(written.bytes(), 1).calls == ("expf",)


def test_addresses_for_the_debugger_are_those_of_the_image() -> None:
    data = PLAIN.with_names(Name("later", 1, 5, FUNCTION, GLOBAL)).bytes()
    moved = with_addresses(data, {1: BASE})
    assert len(moved) == len(data)
    assert struct.pack("<Q", BASE + 5) in moved
    assert struct.pack("<Q", BASE + 5) not in data


RICH = Written(
    (
        replace(TEXT, relocations=[(0, PC32, 3, -4), (4, PLT32, 4, -4), (8, GOTPCREL, 1, -4)]),
        Part(".data", bytes(16), ALLOC | WRITE, relocations=[(0, ABS64, 1, 0)]),
        Part(".bss", kind=NOBITS, flags=ALLOC | WRITE, size=100),
        Part(".rodata.cst4", bytes(4), ALLOC, PROGBITS),
    ),
    (KERNEL, Name("bss", 3), Name("data", 2), Name("expf")),
).bytes()


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(0, len(RICH) - 1), st.integers(0, 255)), max_size=6))
def test_a_damaged_file_is_an_image_or_refused(changes: list[tuple[int, int]]) -> None:
    data = bytearray(RICH)
    for at, value in changes:
        data[at] = value
    try:
        image = linked(bytes(data), 1)
    except UnfitError:
        return
    assert BASE <= image.entry < BASE + len(image.code)
    assert len(image.contents) + image.zeros <= 2 * MAX_MEMORY


@settings(max_examples=100)
@given(st.one_of(st.binary(max_size=300), st.integers(0, len(RICH) - 1).map(lambda n: RICH[:n])))
def test_a_cut_or_random_file_is_refused(data: bytes) -> None:
    refusal(data)
