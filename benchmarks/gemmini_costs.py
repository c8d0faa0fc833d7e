"""Measures costs of Gemmini operations on the simulator, with the compiler of this machine.

    python benchmarks/gemmini_costs.py            compares with the numbers in prompts
    python benchmarks/gemmini_costs.py --write    writes them (targets/gemmini/costs.toml)

The numbers belong to the compiler that builds kernels here, gcc or clang; those of the other
compiler are not changed. Each number is the difference between two small kernels that differ in one
respect.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.core.records import Failed
from tilewright.targets.gemmini import brief as brief_module
from tilewright.targets.gemmini import create_fp32_target, create_target
from tilewright.targets.gemmini.instance import Instance
from tilewright.targets.gemmini.sim import Region, SimResult, run_kernel
from tilewright.targets.gemmini.toolchain import (
    compile_kernel,
    compiler_family,
    find_toolchain,
)

FILE = Path(brief_module.__file__).with_name("costs.toml")
PAIRS = 2048
REPEATS = 64
ARRAY_BYTES = 1 << 14
_HEAD = """# Measured by benchmarks/gemmini_costs.py: what prompts tell of costs that no parameter
# of the machine gives, for each compiler. Instructions are those of the core.
"""


def kernel(instance: Instance, body: str, before: str = "") -> str:
    """A kernel that fills scratchpad and accumulator rows, runs `before` and then `body`."""
    d = instance.dim
    c = instance.element.c
    return f"""void kernel(const {c} A[{d}][{d}], {c} C[{d}][{d}]) {{
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld({d * instance.config.element_bytes}, 1.0f, {d}, 0);
  config_st({d * instance.config.element_bytes});
  for (uint32_t r = 0; r < 16 * {d}; r += {d}) {{
    mvin(&A[0][0], SPAD(r), {d}, {d});
    mvin(&A[0][0], SPAD(SPAD_BANK_ROWS + r), {d}, {d});
    mvin(0, ACC(r), {d}, {d});
  }}
  fence();
  {before}
  {body}
  mvout(&C[0][0], ACC(0), {d}, {d});
  fence();
}}
"""


def simulate(instance: Instance, source: str) -> SimResult:
    """A timed run; ends the program where the kernel does not build or run."""
    built = compile_kernel(find_toolchain(), source, instance.header, 60.0)
    if isinstance(built, Failed):
        sys.exit(built.log)
    regions = [
        Region(0x90000000, bytes(ARRAY_BYTES), False, "A"),
        Region(0x90100000, bytearray(ARRAY_BYTES), True, "C"),
    ]
    result = run_kernel(instance.config, built, regions)
    if result.status != "ok":
        sys.exit(f"{result.status}: {result.fault}")
    return result


def measured(instance: Instance) -> dict[str, float]:
    """The numbers of one instance, by the names that costs.md uses."""
    d = instance.dim
    sizes = f"{d}, {d}, {d}, {d}"

    def loop(b: str, c: str, a: str, step: str, before: str = "") -> SimResult:
        pairs = "".join(
            f"preload({b}, {c.format(n=n)}, {sizes});"
            f"compute_preloaded({a.format(n=n)}, NONE, {sizes});\n"
            for n in range(4)
        )
        body = f"for (uint32_t i = 0; i < {PAIRS // 4}; i++) {{ {pairs} {step} }}"
        return simulate(instance, kernel(instance, body, before))

    def per_pair(result: SimResult) -> float:
        return round((result.instructions - plain.instructions) / PAIRS, 1)

    def per_step(result: SimResult) -> float:
        return round((result.instructions - plain.instructions) / (PAIRS // 4), 1)

    same_row = "ACC(0) | ACCUMULATE"
    rows = f"ACC({{n}} * {d}) | ACCUMULATE"
    b = "SPAD(SPAD_BANK_ROWS)"
    # Read from memory, so that the compiler cannot know the values.
    narrow = "static volatile uint32_t zero; uint32_t x = zero;"
    step = f"x = (x + {4 * d}) & {15 * d};"
    plain = loop(b, same_row, "SPAD(0)", "")
    apart = loop(b, rows, "SPAD(0)", "")
    shared = loop(b, same_row, "SPAD(x)", step, narrow)
    changing = loop(b, same_row, f"SPAD(x + {{n}} * {d})", step, narrow)
    masked = f"SPAD((x & {12 * d}) | {{n}} * {d})"
    ored = loop(b, same_row, masked, f"x += {4 * d};", narrow)
    table = (
        f"static uint32_t t[16]; for (int n = 0; n < 16; n++) t[n] = ACC(n * {d}) | ACCUMULATE;"
        "static volatile uint32_t zero; const uint32_t *p = t + zero;"
    )
    from_table = loop(b, "p[{n}]", "SPAD(0)", "p = p == t + 12 ? t : p + 4;", table)
    end = plain.phases[-1]
    return {
        "pair_instructions": round(plain.instructions / PAIRS, 1),
        "shared_row_instructions": per_step(shared),
        "changing_row_instructions": per_pair(changing),
        "ored_row_instructions": per_pair(ored),
        "table_word_instructions": per_pair(from_table),
        "same_row_cycles": abs(round((plain.cycles - apart.cycles) / PAIRS, 1)),
        "start_cycles": start(instance),
        "end_cycles": float(sum(end.values())),
        **steps(instance),
        **stores(instance),
        **loads(instance),
        "fence_cycles": fences(instance),
        **products(instance),
    }


def steps(instance: Instance) -> dict[str, float]:
    """Instructions of the core in loops whose products share rows, or have words of their own.

    Destinations come from memory, so that the compiler does not know them, and stay the same.
    """
    d = instance.dim
    sizes = f"{d}, {d}, {d}, {d}"
    count = 64
    before = (
        f"static uint32_t t[{count}]; static volatile uint64_t zero;"
        f"for (int n = 0; n < {count}; n++) t[n] = ACC(n % 16 * {d}) | ACCUMULATE | zero;"
        + "".join(f"const uint32_t c{n} = t[{n}];" for n in range(count))
    )

    def per_step(pairs: str, step: str = "", start: str = "") -> float:
        """Of one step, by the difference between many and few."""

        def instructions(times: int) -> int:
            body = f"{start} for (uint32_t i = 0; i < {times}; i++) {{ {pairs} {step} }}"
            return simulate(instance, kernel(instance, body, before)).instructions

        return (instructions(4 * REPEATS) - instructions(REPEATS)) / (3 * REPEATS)

    def block(p: int, q: int) -> float:
        rows = f"const uint32_t a = x & {15 * d & -p * d}, b = y & {15 * d & -q * d};"
        pairs = rows + "".join(
            f"preload(SPAD(SPAD_BANK_ROWS | b | {j * d}), c{j * p + i}, {sizes});"
            f"compute_preloaded(SPAD(a | {i * d}), NONE, {sizes});"
            for j in range(q)
            for i in range(p)
        )
        step = f"x += {p * d}; y += {q * d};"
        return per_step(pairs, step, "uint32_t x = zero, y = zero;") / (p * q)

    def words(n: int) -> float:
        """Beyond the commands, of `n` products with a destination each."""
        pairs = "".join(
            f"preload(SPAD(SPAD_BANK_ROWS), c{i}, {sizes});"
            f"compute_preloaded(SPAD(0), NONE, {sizes});"
            for i in range(n)
        )
        return per_step(pairs) - 2 * n

    few, many = words(8), words(count)
    kept = max(n for n in range(8, 32) if words(n) < few + 1)
    return {
        "step_2x2_instructions": round(block(2, 2), 1),
        "step_4x2_instructions": round(block(4, 2), 1),
        "step_4x4_instructions": round(block(4, 4), 1),
        "register_words": float(kept),
        "spilled_word_instructions": round((many - few) / (count - kept), 1),
    }


def repeated(instance: Instance, body: str, before: str = "") -> float:
    """Cycles of `body` when it runs again and again."""

    def cycles(times: int) -> int:
        loop = f"for (uint32_t i = 0; i < {times}; i++) {{ {body} }}"
        return simulate(instance, kernel(instance, loop, before)).cycles

    return round((cycles(4 * REPEATS) - cycles(REPEATS)) / (3 * REPEATS), 1)


def stores(instance: Instance) -> dict[str, float]:
    """Cycles of stores back to back, to rows that the L2 cache holds, and to rows that it does not
    hold, each in a line of its own.
    """
    d, w, line = instance.dim, instance.move_columns, instance.config["l2_line_bytes"]
    store_rows = f"config_st({w * instance.config.element_bytes});"

    def cold(times: int) -> int:
        store = f"mvout((char *)C + i * {d * line}, ACC(0), {d}, {d});"
        loop = f"for (uint32_t i = 0; i < {times}; i++) {{ {store} }}"
        return simulate(instance, kernel(instance, loop, f"config_st({line});")).cycles

    return {
        "cold_store_cycles": round((cold(12) - cold(4)) / 8, 1),
        "narrow_store_cycles": repeated(instance, f"mvout(C, ACC(0), {d}, {d});", store_rows),
        "wide_store_cycles": repeated(instance, f"mvout(C, ACC(0), {w}, {d});", store_rows),
    }


def start(instance: Instance) -> float:
    """Cycles before the first product of a kernel that loads its two operands from DRAM first."""
    d, c = instance.dim, instance.element.c
    sizes = f"{d}, {d}, {d}, {d}"
    result = simulate(
        instance,
        f"""void kernel(const {c} A[{d}][{d}], {c} C[{d}][{d}]) {{
  config_ld({d * instance.config.element_bytes}, 1.0f, {d}, 0);
  mvin(&A[0][0], SPAD(0), {d}, {d});
  mvin(&A[{d}][0], SPAD(SPAD_BANK_ROWS), {d}, {d});
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st({d * instance.config.element_bytes});
  preload(SPAD(SPAD_BANK_ROWS), ACC(0), {sizes});
  compute_preloaded(SPAD(0), NONE, {sizes});
  mvout(&C[0][0], ACC(0), {d}, {d});
  fence();
}}
""",
    )
    return float(sum(result.phases[0].values()))


def loads(instance: Instance) -> dict[str, float]:
    """Cycles of loads back to back, of rows that lie one after the other in the L2 cache."""
    d, size, bus = instance.dim, instance.config.element_bytes, instance.config["dma_bus_bytes"]

    def load(columns: int, offset: int) -> float:
        at = f"(const char *)A + {offset}"
        return repeated(
            instance,
            f"mvin2({at}, SPAD({4 * d}), {columns}, {d});",
            f"config_ld({columns * size}, 1.0f, {d}, 1);",
        )

    return {
        "narrow_load_cycles": load(d, 0),
        "misaligned_load_cycles": load(d, bus // 2),
        "ragged_load_cycles": load(5 * d // 2, 0),
    }


def fences(instance: Instance) -> float:
    """Cycles that a fence adds between products whose operands are loaded after it."""
    d = instance.dim

    def pair(row: int) -> str:
        return (
            f"preload(SPAD(SPAD_BANK_ROWS), ACC({row}), {d}, {d}, {d}, {d});"
            f"compute_preloaded(SPAD({row}), NONE, {d}, {d}, {d}, {d});"
        )

    def rounds(fence: str) -> float:
        """Two rounds, each with a load, products that use it, and a store."""
        return repeated(
            instance,
            "".join(
                f"mvin(A, SPAD({row}), {d}, {d});"
                + 16 * pair(row)
                + f"mvout(C, ACC({row}), {d}, {d}); {fence}"
                for row in (0, d)
            ),
        )

    return round((rounds("fence();") - rounds("")) / 2, 1)


def products(instance: Instance) -> dict[str, float]:
    """Cycles of products of three quarters of the array's rows, and what a load's writes cost."""
    d, w = instance.dim, instance.move_columns
    rows = d * 3 // 4
    short = f"ACC(0) | ACCUMULATE, {d}, {d}, {d}, {rows})"
    other = f"preload(SPAD(SPAD_BANK_ROWS), {short};compute_preloaded"
    same = f"preload(NONE, {short};compute_accumulated"
    block = f"(SPAD(0), NONE, {d}, {rows}, {d}, {d});"
    first = f"preload(SPAD(SPAD_BANK_ROWS), ACC(0), {d}, {d}, {d}, {d});"
    first += f"compute_preloaded(SPAD(0), NONE, {d}, {d}, {d}, {d});"

    def with_load(bank: str) -> float:
        pair = first.replace("ACC(0)", "ACC(0) | ACCUMULATE")
        load = f"mvin2(&A[0][0], SPAD({bank} + {16 * d}), {w}, {d});"
        return repeated(
            instance,
            16 * pair + load,
            f"config_ld({w * instance.config.element_bytes}, 1.0f, {d}, 1);",
        )

    stolen = (with_load("0") - with_load("2 * SPAD_BANK_ROWS")) / w
    return {
        "short_before_other_cycles": repeated(instance, 8 * (other + block)) / 8,
        "short_before_same_cycles": repeated(instance, 8 * (same + block), first) / 8,
        "stolen_row_cycles": round(stolen, 1),
    }


def written(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """The text of costs.toml: for each compiler its name, and numbers by instance."""
    text = _HEAD
    for family, table in tables.items():
        text += f'\n[{family}]\nversion = "{table["version"]}"\n'
        for name, numbers in table.items():
            if name != "version":
                text += f"\n[{family}.{name}]\n"
                text += "".join(f"{key} = {value}\n" for key, value in numbers.items())
    return text


def main() -> None:
    """Measure, then compare or write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write costs.toml")
    wanted = parser.parse_args().write
    targets = (create_target(), create_fp32_target())
    values = {t.name: measured(t.instance) for t in targets}
    tables = tomllib.loads(FILE.read_text())
    family = compiler_family()
    if wanted:
        measured_now = {"version": find_toolchain().id, **values}
        FILE.write_text(written({**tables, family: measured_now}))
        print(f"written to {FILE}")
        return
    told = {name: numbers for name, numbers in tables[family].items() if name != "version"}
    for name, numbers in values.items():
        for key, value in numbers.items():
            print(f"{name:16} {key:32} measured {value:8.2f}  told {told[name][key]:8.2f}")
    if values != told:
        sys.exit("the numbers differ: write them anew, if that was intended.")


if __name__ == "__main__":
    main()
