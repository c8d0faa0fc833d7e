"""Converts C text to the intermediate form. An unsupported construct is refused with its line.

Macros are expanded. Functions of the file are inlined where they are called. Integers that can be
followed (constants, indices, moving pointers) are replaced by their values.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tree_sitter import Node

from tilewright.core.records import CommandEffect
from tilewright.proposers.c.limits import limits
from tilewright.proposers.c.preprocess import expanded
from tilewright.proposers.c.syntax import declared_names, descendants, pointer_levels, text_of
from tilewright.proposers.c.syntax import parse as syntax_tree
from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.analysis.sharing import require_rewritten, require_shareable
from tilewright.proposers.loops.c_types import BYTES, NAMES, common, is_whole
from tilewright.proposers.loops.definitions import is_vector_function
from tilewright.proposers.loops.emit import sharing_text
from tilewright.proposers.loops.functions import (
    LOADS,
    MAGNITUDES,
    MATHEMATICAL,
    STORES,
    TO_WHOLE,
    type_of_call,
)
from tilewright.proposers.loops.ir import (
    Assign,
    Binary,
    Call,
    Cast,
    Command,
    Declare,
    For,
    Kernel,
    Load,
    Negative,
    Number,
    Parameter,
    Select,
    Statement,
    Type,
)
from tilewright.proposers.loops.parsing.arithmetic import converted, literal_of
from tilewright.proposers.loops.parsing.declarations import zero
from tilewright.proposers.loops.parsing.memory import MEMORY, Memory
from tilewright.proposers.loops.parsing.records import (
    assigned_fields,
    fields_in_order,
    first_set_fields,
    records_used,
    type_name,
    types_assigned_whole,
)
from tilewright.proposers.loops.parsing.scope import Bundle, Callees, Place, Scope, Value, Variable
from tilewright.proposers.loops.parsing.syntax import (
    Cut,
    FlatError,
    NotFollowedError,
    ShortAtEndError,
    SplitError,
    UnsupportedError,
    field_of,
    is_constant,
    named_type,
    operator_of,
)
from tilewright.proposers.loops.parsing.tables import is_table
from tilewright.proposers.loops.parsing.temporaries import declared_in_loops
from tilewright.proposers.nesting_limit import DEEPEST, nested_beyond

_VECTOR_SIZE = re.compile(r"\bvector_size\s*\(\s*([1-9]\d*)\s*\)")
_SHARING = re.compile(
    r"omp parallel for(?: schedule ?\( ?static ?\))? num_threads ?\( ?([1-9]\d?) ?\)"
    r"(?: schedule ?\( ?static ?\))?"
)
_ENUMERATION = re.compile(r"\btypedef(\s+enum\b[^{};]*\{[^{}]*\})\s*(\w+)\s*;")
_HINTS = (
    "omp simd", "GCC ivdep", "GCC unroll", "clang loop", "unroll", "nounroll", "ivdep", "vector",
    "novector", "scop", "endscop",
)  # fmt: skip
"""Pragmas that make promises or requests and do not change results."""
_MOST_CUTS = 8
"""Maximum number of places at which the loops of a kernel are split while it is read."""
_OWN_HEADERS = (
    "math.h",
    "stdint.h",
    "stddef.h",
    "string.h",
    "float.h",
    "limits.h",
    "stdbool.h",
    "stdlib.h",
)
"""Headers whose names are known. Those that a printed kernel needs are included again."""


def parse(
    source: str,
    commands: Sequence[CommandEffect] = (),
    block: tuple[int, int] = (1, 4),
    given_bytes: Sequence[int] = (),
) -> Kernel:
    """The kernel of a source, which may use `commands`. Raises `UnsupportedError`.

    `block` is the maximum number of rows, and of bytes per row, that one command accesses in
    memory. `given_bytes` are the sizes of the arrays that the kernel is called with, in bytes, in
    the order of its parameters; empty if they are not known.
    """
    enumerations = _ENUMERATION.findall(source)
    macros = [*limits(source), *(f"{name} int" for _, name in enumerations)]
    plain = _ENUMERATION.sub(r"\1;", source)
    root = syntax_tree(expanded(plain, [c.name for c in commands], macros))
    if root.has_error:
        wrong = next((n for n in descendants(root) if n.type == "ERROR" or n.is_missing), root)
        raise UnsupportedError(wrong, "this cannot be parsed as C")
    deep = nested_beyond(root, DEEPEST)
    if deep is not None:
        raise UnsupportedError(deep, f"the code nests more than {DEEPEST} levels deep")
    roles = {c.name: c.operands for c in commands}
    kept: set[str] = set()
    peeled: set[int] = set()
    flat: set[str] = set()
    cuts: set[Cut] = set()
    while True:  # an integer that cannot be followed is kept as a variable from the beginning
        try:
            reader = _Reader(roles, kept, peeled, flat, cuts, given_bytes)
            return replace(reader.kernel(root), block=block)
        except ShortAtEndError as error:
            peeled.add(error.place)
            kept.clear()
        except SplitError as error:
            if error.cut in cuts or len(cuts) == _MOST_CUTS:
                raise
            cuts.add(error.cut)
            kept.clear()
        except FlatError as error:
            if error.array in flat:
                raise
            flat.add(error.array)
        except NotFollowedError as error:
            if error.name in kept:
                raise
            kept.add(error.name)


class _Reader(Memory):
    """Reads one source. `roles` are the operand roles of the commands that it may use.

    The arrays in `flat` get a single subscript, because the source also uses all their elements as
    one row.
    """

    def __init__(
        self,
        roles: Mapping[str, tuple[str, ...]],
        kept: set[str],
        peeled: set[int],
        flat: set[str],
        cuts: set[Cut],
        given_bytes: Sequence[int],
    ) -> None:
        super().__init__()
        self._roles = roles
        self.kept = {*kept}
        self.peeled = peeled
        self.cuts = cuts
        self._flat = flat
        self._given_bytes = given_bytes
        self._shared: list[tuple[Node, For]] = []
        self._static_numbers: list[tuple[Node, Declare]] = []
        self._scratch: list[Parameter] = []
        self._pragma: Node | None = None
        self._assigned_fields: set[str] = set()
        self._first_set: frozenset[str] = frozenset()
        self._assigned_whole: frozenset[str] = frozenset()

    def kernel(self, root: Node) -> Kernel:
        """The kernel. Raises `UnsupportedError`."""
        lanes, registers = 0, 0
        head: list[str] = []
        self.declared = Counter(declared_names(root))
        self.names |= {text_of(n) for n in descendants(root) if n.type == "identifier"}
        self._assigned_fields = {*assigned_fields(root)}
        self._first_set = first_set_fields(root)
        self._assigned_whole = types_assigned_whole(root)
        for node in root.named_children:
            if node.type in ("type_definition", "struct_specifier"):
                self._define(node, records_used(node, root, self.constant))
                lanes = _lanes(node) or lanes
            elif node.type == "function_definition":
                name = pointer_levels(field_of(node, "declarator"))[0] or _function_name(node)
                if not is_vector_function(name):
                    self.functions[name] = node
            elif node.type == "declaration" and self._roles:
                head.append(text_of(node))
                registers = _described(node)
            elif node.type == "declaration":
                self._global(node)
            elif node.type == "enum_specifier":
                self.scope = self.constants
                self.enumeration(node)
            elif node.type == "preproc_include":
                if not any(name in text_of(node) for name in _OWN_HEADERS):
                    head.insert(0, text_of(node).strip())
            elif node.type not in ("comment", ";", "preproc_call"):
                raise UnsupportedError(node, "only functions and constants are supported here")
        found = self.functions.pop("kernel", None)
        if found is None:
            raise UnsupportedError(root, "there is no function named kernel")
        self.scope = Scope(self.constants)
        parameters = tuple(self._parameters(found))
        with self._inner(), self._collected() as read:
            self.returned(field_of(found, "body").named_children, None)
        body = declared_in_loops((*self.tables, *read), self._taken(parameters))
        scratch = (*self.constant_arrays, *self._scratch)
        kernel = Kernel(parameters, body, lanes, tuple(head), registers, scratch=scratch)
        for node, number in self._static_numbers:
            if not _is_written_first(number, body):
                what = f"the static variable {number.name} may keep its value until the next call"
                raise UnsupportedError(node, what)
        for node, loop in self._shared:
            try:
                require_shareable(loop, kernel)
            except NotApplicableError as error:
                raise UnsupportedError(node, f"threads share this loop, but {error}") from error
        return kernel

    def _taken(self, parameters: Sequence[Parameter]) -> set[str]:
        """All names of the kernel, and of the source."""
        arrays = (*parameters, *self.constant_arrays, *self._scratch)
        return self.names | {array.name for array in arrays}

    def _define(self, node: Node, found: Mapping[str, Bundle]) -> None:
        for name, bundle in found.items():
            changing = frozenset(self._assigned_fields & {*bundle.names})
            if bundle.record is None:
                changing -= self._first_set
            if any(pointer and field in changing for field, _, pointer in bundle.fields):
                what = "a structure with pointers is supported only if nothing changes these"
                raise UnsupportedError(node, what)
            changes = changing or name in self._assigned_whole
            if not bundle.shapes and (not changes or bundle.record is None):
                self.bundles[name] = replace(bundle, changing=changing)
            if bundle.record is not None:
                self.records[name] = bundle.record

    def without_hints(self, nodes: Sequence[Node]) -> list[Node]:
        """The statements of a block without comments and promises to the compiler."""
        plain: list[Node] = []
        for node in nodes:
            if node.type in ("comment", ";"):
                continue
            if node.type == "preproc_call":
                hint = " ".join(text_of(node).split()).removeprefix("#pragma ")
                if hint.startswith(_HINTS):
                    continue
            plain.append(node)
        return plain

    def statements(self, nodes: Sequence[Node]) -> None:
        """Reads the statements of a block. A pragma applies to the next loop."""
        super().statements(self.without_hints(nodes))
        if self._pragma is not None:
            raise UnsupportedError(self._pragma, "no loop follows")

    def returned(self, nodes: Sequence[Node], kind: Type | None) -> Value | None:
        """The value that the statements of a function return. A pragma applies to the next
        loop."""
        found = super().returned(nodes, kind)
        if self._pragma is not None:
            raise UnsupportedError(self._pragma, "no loop follows")
        return found

    def statement(self, node: Node) -> None:
        """One statement. Raises `UnsupportedError`."""
        if self._pragma is not None:
            self._shared_loop(self._pragma, node)
        elif node.type == "preproc_call":
            self._pragma = node
        elif (
            node.type == "declaration"
            and text_of(node).startswith("static ")
            and not is_constant(node)
        ):
            self._static(node)
        else:
            super().statement(node)

    def _shared_loop(self, pragma: Node, node: Node) -> None:
        self._pragma = None
        clauses = _SHARING.fullmatch(" ".join(text_of(pragma).split()).removeprefix("#pragma "))
        if clauses is None or node.type != "for_statement":
            raise UnsupportedError(
                pragma, f"the only supported pragma is {sharing_text(2)!r}, before a loop"
            )
        *before, last = self.loop(node)
        if not isinstance(last, For) or any(isinstance(s, For) for s in before):
            raise UnsupportedError(pragma, "threads cannot share a loop whose pointers are swapped")
        loop = replace(last, threads=int(clauses.group(1)))
        self._shared.append((pragma, loop))
        self._done += [*before, loop]

    def command(self, node: Node) -> None:
        """A call as a statement, of a command or of a function in the file."""
        name = self.callee(node)
        arguments = [a for a in field_of(node, "arguments").named_children if a.type != "comment"]
        if name in self.functions:
            self.called(node)
        elif is_vector_function(name) and name.startswith(STORES) and len(arguments) == 2:
            target = self._vector_at(node, arguments[0], name.removeprefix(STORES))
            self._done.append(Assign(target, self.expression(arguments[1])))
        elif name in MEMORY:
            self._done += self.moved(node, name, arguments)
        elif name not in self._roles or len(arguments) != len(self._roles[name]):
            raise UnsupportedError(node, f"calls of {name} are not supported")
        else:
            given = tuple(self.argument(a) for a in arguments)
            self._done.append(Command(name, given, self._roles[name]))

    def call(self, node: Node) -> Value:
        """The value of a call."""
        name = self.callee(node)
        if name in self.functions:
            found = self.called(node)
            if found is None:
                raise UnsupportedError(node, f"{name} returns no number")
            return found
        arguments = [a for a in field_of(node, "arguments").named_children if a.type != "comment"]
        if is_vector_function(name) and name.startswith(LOADS) and len(arguments) == 1:
            loaded = self._vector_at(node, arguments[0], name.removeprefix(LOADS))
            return Value(loaded, "vector")
        if name in TO_WHOLE and len(arguments) == 1:
            rounded = Call(TO_WHOLE[name], (self.expression(arguments[0]),))
            return Value(Cast("int64_t", rounded), "int64_t")
        if name in MAGNITUDES and len(arguments) == 1:
            return self._magnitude(node, arguments[0], MAGNITUDES[name])
        if not is_vector_function(name) and MATHEMATICAL.get(name) != len(arguments):
            raise UnsupportedError(node, f"the function {name} is not supported")
        return Value(Call(name, tuple(map(self.expression, arguments))), type_of_call(name))

    def _magnitude(self, node: Node, argument: Node, kind: Type) -> Value:
        """The magnitude of an integer that the function's type can represent."""
        given = self.value(argument)
        if not is_whole(given.type) or common(given.type, kind) != kind:
            raise UnsupportedError(
                node, f"{text_of(node)!r} is supported only for integers of its type"
            )
        size = Select(Binary("<", given.expr, Number("0")), Negative(given.expr), given.expr)
        if given.interval is None:
            return Value(size, kind)
        return Value(size, kind, (0, max(map(abs, given.interval))))

    def _vector_at(self, node: Node, address: Node, kind: str) -> Load:
        """The elements whose address is passed to a function that converts them from a type."""
        if address.type == "pointer_expression" and operator_of(address) == "&":
            found = self.place(field_of(address, "argument"))
            if len(found.subscripts) == found.rank and found.type == kind:
                return Load(found.array, found.subscripts, found.type)
        raise UnsupportedError(node, f"{text_of(address)!r} is not the address of a {kind}")

    def _parameters(self, function: Node) -> Iterator[Parameter]:
        listed = field_of(field_of(function, "declarator"), "parameters").named_children
        declared = (n for n in listed if n.type != "comment" and text_of(n) != "void")
        for place, node in enumerate(declared):
            what = type_name(field_of(node, "type"))
            record = self.records.get(what)
            kind = record.type if record is not None else NAMES.get(what)
            if kind is None:
                raise UnsupportedError(node, f"arrays of {what} are not supported")
            name, levels = pointer_levels(field_of(node, "declarator"))
            pointer = levels[:1] == [None]
            if (
                not levels
                or None in levels[1:]
                or (pointer and record is not None and len(levels) > 1)
            ):
                raise UnsupportedError(node, f"the sizes of {name} are not given")
            sizes = tuple(self.constant(s) for s in levels if s is not None)
            rows: tuple[int, ...] = ()
            if pointer:
                rows, sizes = sizes, self._given_elements(place, kind)
            constant = is_constant(node)
            restricted = "restrict" in text_of(field_of(node, "declarator"))
            if record is not None and not pointer:
                sizes = (*sizes, record.size)
            if record is None:
                sizes, rows = self._as_used(name, sizes, rows)
            self.printed_name(name)
            self._sizes[name] = sizes
            rank = 1 if pointer else len(sizes)
            self.scope.declare(name, Place(name, kind, rank, record=record, rows=rows))
            self.pointers.add(name)
            yield Parameter(name, sizes, constant, kind, restricted)

    def _given_elements(self, place: int, kind: Type) -> tuple[int, ...]:
        """The size of the array that a pointer parameter gets, in elements, if it is known."""
        if place >= len(self._given_bytes):
            return ()
        count = self._given_bytes[place] // BYTES.get(kind, 4)
        return (count,) if count else ()

    def _as_used(
        self, array: str, sizes: tuple[int, ...], rows: tuple[int, ...] = ()
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The sizes of an array, and those of the rows of an array with one subscript."""
        if array in self._flat and len(sizes) > 1:
            return (math.prod(sizes),), sizes[1:]
        return sizes, rows

    def _static(self, node: Node) -> None:
        """Declares static arrays, which can contain anything before a call, and static numbers."""
        for declarator in node.children_by_field_name("declarator"):
            name, levels = pointer_levels(declarator)
            kind = NAMES.get(text_of(field_of(node, "type")))
            if declarator.type == "identifier" and self.scope is not self.constants:
                self._static_number(node, name)
                continue
            if kind is None or not levels or None in levels or declarator.type == "init_declarator":
                raise UnsupportedError(
                    node, "only static arrays without initial values are supported"
                )
            sizes = tuple(self.constant(s) for s in levels if s is not None)
            printed_name = self.printed_name(name)
            sizes, rows = self._as_used(printed_name, sizes)
            self._sizes[printed_name] = sizes
            self.scope.declare(name, Place(printed_name, kind, len(sizes), rows=rows))
            if self._calls:
                raise UnsupportedError(node, "static arrays in functions that are called")
            if not self._rehearsing:
                self._scratch.append(Parameter(printed_name, sizes, False, kind))

    def _static_number(self, node: Node, name: str) -> None:
        """A static number of a function, which must be written before it is read: see `kernel`."""
        self._scalar(node, name, named_type(field_of(node, "type")), None)
        found = self.scope.find(name)
        if isinstance(found, Variable):
            self._static_numbers.append((node, Declare(found.type, found.name)))

    def _global(self, node: Node) -> None:
        """A declaration outside functions: constants, static arrays, prototypes."""
        if any(d.type == "function_declarator" for d in node.children_by_field_name("declarator")):
            return
        self.scope = self.constants
        declarators = node.children_by_field_name("declarator")
        if all(d.type == "array_declarator" for d in declarators):
            self._static(node)
            return
        if not is_constant(node):
            raise UnsupportedError(node, "variables outside of functions are not supported")
        for declarator in declarators:
            if self._constant_callees(declarator) or self._bundle_of_constants(node, declarator):
                continue
            if is_table(declarator):
                self.table(node, declarator, named_type(field_of(node, "type")))
                continue
            value = declarator.child_by_field_name("value")
            name, levels = pointer_levels(declarator)
            if value is None or levels:
                raise UnsupportedError(node, "constants outside of functions must be numbers")
            kind = named_type(field_of(node, "type"))
            self.constants.declare(name, self._constant_of(value, kind))

    def _constant_callees(self, declarator: Node) -> bool:
        """Declare a constant pointer to a function, or a table of such pointers."""
        value = declarator.child_by_field_name("value")
        target = declarator.child_by_field_name("declarator")
        if value is None or target is None or target.type not in ("identifier", "array_declarator"):
            return False
        items = value.named_children if value.type == "initializer_list" else [value]
        names = tuple(self.function_at(item) for item in items if item.type != "comment")
        if names and all(names):
            self.constants.declare(pointer_levels(target)[0], Callees(names))
        return bool(names) and all(names)

    def _bundle_of_constants(self, node: Node, declarator: Node) -> bool:
        bundle = self.bundles.get(type_name(field_of(node, "type")))
        value = declarator.child_by_field_name("value")
        name, levels = pointer_levels(declarator)
        if bundle is None or value is None or levels:
            return False
        items = fields_in_order(value, bundle.names) if value.type == "initializer_list" else None
        if items is None or any(pointer for _, _, pointer in bundle.fields):
            raise UnsupportedError(node, f"the fields of {name} are not all constant numbers")
        self.constants.declare(name, bundle)
        for (field, kind, _), item in zip(bundle.fields, items, strict=True):
            found = self._constant_of(item, kind) if item is not None else zero(kind)
            self.constants.declare(f"{name}.{field}", found)
        return True

    def _constant_of(self, value: Node, kind: Type) -> Value:
        found = self.value(value)
        if found.interval is not None and kind not in ("float", "double"):
            return converted(value, found, kind)
        if found.type == kind:
            return found
        if kind in ("float", "double") and (rounded := literal_of(found.expr, kind)) is not None:
            return Value(rounded, kind)
        raise UnsupportedError(value, f"{text_of(value)!r} is converted to {kind}")


def _is_written_first(number: Declare, body: tuple[Statement, ...]) -> bool:
    """Whether statements write a variable before they read it, after each declaration of it."""
    for place, statement in enumerate(body):
        if isinstance(statement, For) and not _is_written_first(number, statement.body):
            return False
        if statement == number:
            try:
                require_rewritten(For("", 0, 1, 1, body[place + 1 :]), number, 0)
            except NotApplicableError:
                return False
    return True


def _lanes(node: Node) -> int:
    """The number of lanes of the float vector type that this package writes."""
    text = text_of(node)
    if "vector_size" not in text or " vf " not in text:
        return 0
    size = _VECTOR_SIZE.search(text)
    if size is None:
        raise UnsupportedError(node, "the size of the vector type vf is not an integer")
    return int(size.group(1)) // 4


def _function_name(node: Node) -> str:
    declarator = field_of(node, "declarator")
    while declarator.type != "identifier":
        declarator = field_of(declarator, "declarator")
    return text_of(declarator)


def _described(node: Node) -> int:
    """The number of registers that a declaration describes, which is the common length of its
    lists, or 0."""
    lists = [
        len(inner.named_children)
        for inner in descendants(node)
        if inner.type == "initializer_list"
        and all(value.type == "number_literal" for value in inner.named_children)
    ]
    return lists[0] if lists and len(set(lists)) == 1 else 0
