"""One Gemmini instance: the name of its target, and its parameters in the form that this package
needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tilewright.targets.gemmini.parameters import SimConfig, chipyard_folder, load_config


@dataclass(frozen=True, slots=True)
class ElementType:
    """A type of the array's operands or sums, with its names in numpy and in C."""

    dtype: str
    c: str


ELEMENTS = {"int8": ElementType("int8", "int8_t"), "fp32": ElementType("float32", "float")}
SUMS = {"int8": ElementType("int32", "int32_t"), "fp32": ElementType("float32", "float")}


@dataclass(frozen=True, eq=False)
class Instance:
    """A named, checked configuration. Sizes are in rows, columns and banks."""

    name: str
    config: SimConfig
    chipyard: Path | None = None
    """The chipyard checkout with the external tools, if the configuration names one."""

    @staticmethod
    def load(name: str, configuration: Path) -> Instance:
        """The instance that a target.toml describes; `ConfigurationError` says what is wrong with
        it.
        """
        return Instance(name, load_config(configuration), chipyard_folder(configuration))

    @property
    def summary(self) -> str:
        """The element type and the array size as text: `int8 16x16`."""
        return f"{self.config.element_type} {self.dim}x{self.dim}"

    @property
    def dim(self) -> int:
        """The number of rows and columns of the array, which is also the number of rows of a
        move.
        """
        return self.config["array_dim"]

    @property
    def move_columns(self) -> int:
        """Columns of the widest move."""
        return self.dim * self.config.max_blocks

    @property
    def is_integer(self) -> bool:
        """Whether elements are integers. Integer results saturate and are compared exactly."""
        return self.config.element_type == "int8"

    @property
    def c_types(self) -> dict[str, str]:
        """The types of elements that the header defines, by their names in C."""
        return {"elem_t": self.element.dtype, "acc_t": self.sum.dtype}

    @property
    def element(self) -> ElementType:
        """Type of the operands."""
        return ELEMENTS[self.config.element_type]

    @property
    def sum(self) -> ElementType:
        """Type of the sums."""
        return SUMS[self.config.element_type]

    @property
    def limits(self) -> Mapping[str, int]:
        """Geometry, in rows, columns and banks."""
        return {
            "tile_rows": self.dim,
            "tile_columns": self.dim,
            "move_rows": self.dim,
            "move_columns": self.move_columns,
            "scratchpad_banks": self.config["scratchpad_banks"],
            "scratchpad_bank_rows": self.config["scratchpad_bank_rows"],
            "accumulator_banks": self.config["accumulator_banks"],
            "accumulator_bank_rows": self.config["accumulator_bank_rows"],
        }

    @property
    def constants(self) -> Mapping[str, int]:
        """The names in gemmini.h with their values. `SPAD(row)` and `ACC(row)` have the values for
        row 0.
        """
        return {
            "DIM": self.dim,
            "SPAD": 0,
            "SPAD_BANKS": self.config["scratchpad_banks"],
            "SPAD_BANK_ROWS": self.config["scratchpad_bank_rows"],
            "ACC": 0x80000000,
            "ACC_BANKS": self.config["accumulator_banks"],
            "ACC_BANK_ROWS": self.config["accumulator_bank_rows"],
            "MAX_COLUMNS": self.move_columns,
            "ACCUMULATE": 0x40000000,
            "FULL": 0x20000000,
            "NONE": 0xFFFFFFFF,
            "OUTPUT_STATIONARY": 0,
            "WEIGHT_STATIONARY": 1,
            "NO_ACTIVATION": 0,
            "RELU": 1,
        }

    @property
    def header(self) -> str:
        """The C text of configuration.h, which gemmini.h includes."""
        names = ("DIM", "MAX_COLUMNS", "SPAD_BANKS", "SPAD_BANK_ROWS", "ACC_BANKS", "ACC_BANK_ROWS")
        lines = [f"#define {name} {self.constants[name]}" for name in names]
        lines += [f"typedef {self.element.c} elem_t;", f"typedef {self.sum.c} acc_t;"]
        return "\n".join(lines) + "\n"
