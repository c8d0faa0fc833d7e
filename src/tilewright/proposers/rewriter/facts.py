"""Facts about a kernel of commands that show which optimisations can help it.

They are found in the syntax, so that they are also known for kernels whose values the rewriter
cannot follow. A fact that is not found does not hold; one that is found may hold.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache

from tree_sitter import Node

from tilewright.core.errors import InputError
from tilewright.core.records import TargetBrief
from tilewright.proposers.c.preprocess import expanded
from tilewright.proposers.c.syntax import (
    LOOPS,
    calls,
    declared_name,
    descendants,
    parse,
    text_of,
)
from tilewright.proposers.c.unroll_hints import as_attributes
from tilewright.proposers.rewriter.fact_calls import (
    arguments,
    called,
    may_be_one,
    parameters,
    product_of,
    texts_given,
    value,
)
from tilewright.proposers.rewriter.fact_forms import has_unread_loads, has_windows
from tilewright.proposers.rewriter.machine import Machine

_UNREAD = "unread-loads"
FACTS = {
    "ragged": "the size of a move or a product varies",
    "short-products": "a product has fewer rows or columns than others, or their number varies",
    "tests": "something depends on a condition",
    "inner-fences": "there is another fence in addition to the last one",
    "clears": "a load writes zeros",
    "repeated": "three or more products follow one another",
    "unpacked": "a product takes addresses and sizes instead of words",
    "operands-replaced": "more products replace the operand in the array than keep it",
    "few-rows-replaced": "`operands-replaced`, and a product may have fewer rows or columns than "
    "the array",
    "repeated-settings": "a setting may be made several times",
    "load-bursts": "three or more loads, or a loop of loads, follow one another without work in "
    "between",
    "store-bursts": "two or more stores, or a loop of stores, follow one another without work in "
    "between",
    _UNREAD: "something is loaded that is never read",
    "neighbouring-loops": "two loops follow one another",
    "windows": "windows of an array overlap, as in a convolution",
    "short-window-products": "both `windows` and `short-products`",
    "vectors": "a move or a product has one row or one column",
    "sums-in-array": "products keep their sums in the array",
    "unscaled-results": "results are stored without a scale, and a fence comes before the last one",
}
"""All facts, in words."""

_TESTS = ("if_statement", "conditional_expression", "switch_statement")


def facts_of(
    target: TargetBrief, source: str, needed: Collection[str] = FACTS.keys()
) -> frozenset[str] | None:
    """The facts that may hold; None for a source that cannot be parsed.

    Finding loads that are never read may take seconds, so this fact is found only if it is one of
    `needed`.
    """
    machine = Machine.of(target)
    facts = _facts(source, machine)
    if facts is not None and _UNREAD in needed and has_unread_loads(source, machine):
        return facts | {_UNREAD}
    return facts


@lru_cache(maxsize=256)  # called again for every plan of a kernel
def _facts(source: str, machine: Machine) -> frozenset[str] | None:
    try:
        root = parse(as_attributes(expanded(source, machine.effects.keys(), machine.macros)))
    except (InputError, RecursionError):
        return None
    return None if root.has_error else frozenset(_Facts(root, machine).found())


class _Facts:
    """The facts of one syntax tree."""

    def __init__(self, root: Node, machine: Machine) -> None:
        self._root = root
        self._machine = machine
        self._functions = {
            declared_name(node.child_by_field_name("declarator") or node): node
            for node in descendants(root)
            if node.type == "function_definition"
        }
        self._calls = list(calls(root))
        self._units: dict[int, frozenset[str]] = {}

    def found(self) -> Iterator[str]:
        """All facts that may hold, except that of unread loads."""
        commands = [c for c in self._calls if self._unit(c) is not None]
        sizes = [self._sizes(c) for c in commands]
        is_ragged = any(size is None for each in sizes for size in each)
        if is_ragged:
            yield from ("ragged", "short-products", "tests")
        products = {
            size
            for command, each in zip(commands, sizes, strict=True)
            if self._unit(command) == "execute"
            for size in each
        }
        if len(products) > 1:
            yield "short-products"
        if any(node.type in _TESTS for node in descendants(self._root)):
            yield "tests"
        if sum(self._unit(c) == "sync" for c in commands) > 1:
            yield "inner-fences"
        if any(self._unit(c) == "execute" for c in commands):
            yield "unpacked"
        products_by_operand = Counter(product_of(c, self._machine) for c in self._calls)
        kept = products_by_operand["keeps"]
        if not kept or products_by_operand["replaces"] > kept:
            yield "operands-replaced"
            whole, packed = self._whole(), {s for w in self._words() for s in self._sizes(w)}
            if any(size is None or size < whole for size in products | packed):
                yield "few-rows-replaced"
        if any(self._unit(c) == "config" and self._is_repeated(c) for c in commands):
            yield "repeated-settings"
        if any(self._clears(c) for c in commands):
            yield "clears"
        blocks = [n for n in descendants(self._root) if n.type == "compound_statement"]
        statements = [[c for c in block.named_children if c.type != "comment"] for block in blocks]
        if any(self._run(s, "execute") >= 6 for s in statements):  # each consists of two commands
            yield "repeated"
        if self._bursts(statements, "load", 3):
            yield "load-bursts"
        if self._bursts(statements, "store", 2):
            yield "store-bursts"
        if any(sum(s.type in LOOPS for s in block) > 1 for block in statements):
            yield "neighbouring-loops"
        windows = has_windows(self._root)
        if windows:
            yield "windows"
        if windows and (is_ragged or len(products) > 1):
            yield "short-window-products"
        if any(1 in self._sizes(c) for c in (*commands, *self._words())):
            yield "vectors"
        if any(self._keeps_sums_in_array(c) for c in commands):
            yield "sums-in-array"
        if self._fences(commands) > 1 and self._stores_unscaled(commands):
            yield "unscaled-results"

    def _whole(self) -> int:
        """The rows of a product that fills the array."""
        products = [e for e in self._machine.effects.values() if e.unit == "execute"]
        return max((int(e.attributes.get("max_rows", 0)) for e in products), default=0)

    def _words(self) -> list[Node]:
        """The calls that pack local blocks into words."""
        words = self._machine.words
        return [c for c in self._calls if words is not None and called(c) == words.macro]

    def _fences(self, commands: Sequence[Node]) -> float:
        """The number of fences; infinite if one may be executed several times."""
        fences = [c for c in commands if self._unit(c) == "sync"]
        return math.inf if any(self._is_repeated(f) for f in fences) else len(fences)

    def _is_repeated(self, node: Node) -> bool:
        """Whether a loop or a further function contains a node."""
        above = node.parent
        while above is not None and above.type != "function_definition":
            if above.type in LOOPS:
                return True
            above = above.parent
        name = declared_name(above.child_by_field_name("declarator") or above) if above else ""
        return any(called(c) == name for c in self._calls)

    def _keeps_sums_in_array(self, call: Node) -> bool:
        """Whether a configuration may choose the dataflow whose sums stay in the array."""
        name = called(call)
        dataflow = self._machine.attribute(name, "sums_in_array")
        if dataflow is None:
            return False
        values = self._given(call, self._machine.operands(name, "dataflow")[0])
        other = self._machine.attribute(name, "sums_in_memory") or ""
        return any(v not in (other, str(self._machine.constants.get(other))) for v in values)

    def _stores_unscaled(self, commands: Sequence[Node]) -> bool:
        """Whether a configuration of stores may have the scale 1."""
        stores = {
            self._machine.attribute(called(c), "configured_by")
            for c in commands
            if self._unit(c) == "store"
        }
        configured = [c for c in commands if called(c) in stores]
        scales = [
            scale
            for c in configured
            for scale in self._given(c, self._machine.operands(called(c), "scale")[0])
        ]
        return not configured or any(may_be_one(scale) for scale in scales)

    def _given(self, call: Node, position: int) -> list[str]:
        return texts_given(call, position, self._calls, self._functions)

    def _unit(self, call: Node) -> str | None:
        """The unit of a command; None for any other call."""
        name = called(call)
        if not self._machine.is_command(name):
            return None
        unit = self._machine.unit(name)
        return None if unit in ("space", "flag") else unit

    def _sizes(self, call: Node) -> list[int | None]:
        """Rows and columns that a command moves or multiplies; None if a size varies."""
        name = called(call)
        words = self._machine.words
        is_word = words is not None and name == words.macro
        roles = ("", "columns", "rows") if is_word else self._machine.effects[name].operands
        return [
            number
            for role, argument in zip(roles, arguments(call), strict=False)
            if role.partition(":")[0] in ("rows", "columns")
            for number in self._numbers(argument, call)
        ]

    def _numbers(self, argument: Node, call: Node) -> list[int | None]:
        """The values of a size that consists of literals, including literals that all calls
        pass."""
        names = {text_of(n) for n in descendants(argument) if n.type == "identifier"}
        unknown = names - self._machine.constants.keys()
        if not unknown:
            return [value(argument, self._machine.constants)]
        for name, function in self._functions.items():
            names_of = parameters(function)
            inside = function.start_byte <= call.start_byte < function.end_byte
            if inside and len(unknown) == 1 and unknown <= set(names_of):
                (wanted,) = unknown
                given = [
                    value(arguments(c)[names_of.index(wanted)], self._machine.constants)
                    for c in self._calls
                    if called(c) == name and len(arguments(c)) == len(names_of)
                ]
                known = self._machine.constants
                return [value(argument, {**known, wanted: v}) for v in given if v is not None] + [
                    None for v in given if v is None
                ]
        return [None]

    def _clears(self, call: Node) -> bool:
        name = called(call)
        if self._machine.attribute(name, "null_source") != "zeros":
            return False
        position = self._machine.operands(name, "dram_read")[0]
        given = arguments(call)
        return position < len(given) and text_of(given[position]) in ("0", "NULL")

    def _of(self, node: Node) -> frozenset[str]:
        """The units of all commands in a statement, including those in called functions."""
        if node.id not in self._units:
            self._units[node.id] = frozenset()  # in a recursive call
            found: set[str] = set()
            for call in descendants(node):
                if call.type != "call_expression":
                    continue
                unit = self._unit(call)
                function = self._functions.get(called(call))
                if unit is not None:
                    found.add(unit)
                elif function is not None:
                    found |= self._of(function)
            self._units[node.id] = frozenset(found)
        return self._units[node.id]

    def _run(self, statements: Sequence[Node], unit: str) -> int:
        """The maximum number of consecutive statements with commands of only one unit, without
        loops."""
        longest = current = 0
        for statement in statements:
            only = self._of(statement) == {unit} and statement.type not in LOOPS
            current = current + 1 if only else 0
            longest = max(longest, current)
        return longest

    def _bursts(self, blocks: Sequence[Sequence[Node]], unit: str, least: int) -> bool:
        return any(
            self._run(block, unit) >= least
            or any(s.type in LOOPS and self._of(s) == {unit} for s in block)
            for block in blocks
        )
