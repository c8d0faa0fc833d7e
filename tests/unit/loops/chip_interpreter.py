"""Runs kernels of commands on registers, for the chip that the tests of registers describe."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from loop_interpreter import Interpreter

from tilewright.proposers.loops.ir import Address, Command, Kernel, Number, Var


class Chip(Interpreter):
    """Registers as bytes in rows; their shapes are what the kernel's head says."""

    def __init__(self, kernel: Kernel, arrays: dict[str, np.ndarray]) -> None:
        super().__init__(kernel, arrays)
        rows, row_bytes = (
            [int(value) for value in found.split(",")]
            for found in re.findall(r"\{([^{}]*)\}", kernel.head[-1])
        )
        self.registers = [np.zeros(shape, np.uint8) for shape in zip(rows, row_bytes, strict=True)]

    def _declared(self, kind: str, sizes: tuple[int, ...]) -> np.ndarray:
        return np.zeros(sizes, kind.removesuffix("_t"))

    def _command(self, command: Command) -> None:
        name, arguments = command.name, command.arguments
        if name == "clear":
            self._register(arguments[0])[:] = 0
        elif name == "mul":
            c, a, b = map(self._register, arguments)
            left = a.view(np.int8).astype(np.int32)
            right = b.view(np.int8).reshape(len(b), -1, 4)
            packed = right.transpose(0, 2, 1).reshape(4 * len(b), -1).astype(np.int32)
            c[:] = (c.view(np.int32) + left @ packed).view(np.uint8)
        elif name in ("fetch", "put"):
            register = self._register(arguments[0])
            flat, at = self._address(arguments[1])
            stride = int(self._value(arguments[2]))
            for row in range(len(register)):
                part = flat[at + row * stride :][: register.shape[1]]
                if name == "put":
                    part[:] = register[row]
                else:
                    register[row] = part

    def _register(self, argument: Any) -> np.ndarray:
        assert isinstance(argument, Number)
        return self.registers[int(argument.text)]

    def _address(self, argument: Any) -> tuple[np.ndarray, int]:
        """The bytes of an array, and where in them an address lies."""
        assert isinstance(argument, (Address, Var))
        if isinstance(argument, Var):
            return self.arrays[argument.name].view(np.uint8).reshape(-1), 0
        array = self.arrays[argument.array]
        index = [int(self._value(s)) for s in argument.subscripts]
        assert all(0 <= i < n for i, n in zip(index, array.shape, strict=True))
        at = int(np.ravel_multi_index(index, array.shape)) * array.itemsize
        return array.view(np.uint8).reshape(-1), at
