"""Targets of assignments: their names, and how they are read and written."""

from __future__ import annotations

from tree_sitter import Node

from tilewright.proposers.c.syntax import text_of
from tilewright.proposers.rewriter.raising.translation.declarations import Declarations
from tilewright.proposers.rewriter.raising.translation.parts import (
    FUNCTIONS,
    Place,
    Untranslated,
    field_of,
)
from tilewright.proposers.rewriter.raising.types import (
    INT,
    LONG,
    UNSIGNED,
    UNSIGNED_LONG,
    Callee,
    Elements,
    Number,
    Pointer,
    Structure,
    Type,
    common,
    size_of,
)


class Places(Declarations):
    """Translates names, conversions, loads and stores."""

    def _place_named(self, name: str) -> Place | None:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return self.globals.get(name)

    def _named(self, node: Node) -> tuple[str, Type | None]:
        name = text_of(node)
        if name in self.functions:
            function = self.functions[name]
            kind = Callee(tuple(of for _, of in function.parameters), function.result)
            return str(FUNCTIONS + list(self.functions).index(name)), Pointer(kind)
        known = self.constants.get(name)
        known = self.machine.constants.get(name) if known is None else known
        if known is None:
            if name == "NULL":
                return "0", Pointer(None)
            raise Untranslated(node, f"{name} is not declared")
        return str(known), INT if known < 1 << 31 else UNSIGNED

    def _field(self, place: Place, name: str, node: Node) -> Place:
        for called, kind, offset in place.kind.fields if isinstance(place.kind, Structure) else ():
            if called == name:
                return Place(f"({place.code} + {offset})", kind, in_memory=True)
        raise Untranslated(node, f"the structure has no field {name}")

    def converted(self, code: str, kind: Type | None, to: Type | None, node: Node) -> str:
        """Code that converts a value to another type."""
        if isinstance(to, Structure):
            if kind != to:
                raise Untranslated(node, "a value of another type is assigned to a structure")
            return f"copy({code}, allocate({to.bytes}), {to.bytes})"
        if not isinstance(to, Number) or kind == to:
            return code
        if to.floating:
            return code if isinstance(kind, Number) and kind.floating else f"float({code})"
        if isinstance(kind, Number) and kind.floating:
            code, kind = f"int({code})", LONG
        if not isinstance(kind, Number):
            kind = UNSIGNED_LONG
        holds = kind.bytes < to.bytes or (kind.bytes == to.bytes and kind.signed == to.signed)
        if holds and (to.signed or not kind.signed):
            return code
        if code.isdecimal() and int(code) < 1 << (8 * to.bytes - to.signed):
            return code
        mask = (1 << 8 * to.bytes) - 1
        if to.signed:
            return f"signed({code}, {8 * to.bytes})"
        return f"(({code}) & {mask})"

    def _read(self, place: Place) -> str:
        if not place.in_memory:
            return place.code
        kind = place.kind
        if self.data and isinstance(kind, Number) and kind.signed and not kind.floating:
            return f"element({place.code}, {kind.bytes})"
        return f"load({place.code})"

    def _store(self, node: Node, place: Place, code: str, *, used: bool = False) -> str:
        if isinstance(place.kind, Structure):
            return f"copy({code}, {place.code}, {place.kind.bytes})"
        if isinstance(place.kind, Elements):
            raise Untranslated(node, "an array is assigned as a whole")
        if place.in_memory and self.data and isinstance(place.kind, Number):
            line = node.start_point[0] + 1
            return f"write({place.code}, {code}, {place.kind.bytes}, {line})"
        if place.in_memory:
            return f"store({place.code}, {code})"
        return f"({place.code} := {code})" if used else f"{place.code} = {code}"

    def _result(self, kind: Type) -> Type:
        return common(kind, INT) if isinstance(kind, Number) else kind

    def _given(self, value: Node, kind: Type) -> tuple[str, Type | None]:
        if value.type == "initializer_list":
            inner = [c for c in value.named_children if c.type != "comment"]
            return self._given(inner[0], kind) if inner else ("0", INT)
        return self.value(value)

    def _initialise(self, value: Node, place: Place) -> None:
        """Translates `= {..}` or `= value` for an object in memory."""
        if value.type != "initializer_list" or not isinstance(place.kind, Elements | Structure):
            code, kind = self._given(value, place.kind)
            self._put(
                value, self._store(value, place, self.converted(code, kind, place.kind, value))
            )
            return
        at, alone = 0, sum(c.type != "comment" for c in value.named_children) == 1
        for item in value.named_children:
            if item.type == "comment":
                continue
            given, part = item, None
            if item.type == "initializer_pair":
                designator, given = item.named_children[0], field_of(item, "value")
                inner = designator.named_children[0]
                if designator.type == "field_designator":
                    part = self._field(place, text_of(inner), item)
                else:
                    at = self.constant(inner)
            if part is None and isinstance(place.kind, Elements):
                part = Place(
                    f"{place.code} + {at * size_of(place.kind.of)}", place.kind.of, in_memory=True
                )
            elif part is None:
                assert isinstance(place.kind, Structure)
                _, kind, offset = place.kind.fields[at]
                part = Place(f"{place.code} + {offset}", kind, in_memory=True)
            while alone and isinstance(part.kind, Elements) and given.type != "initializer_list":
                part = Place(part.code, part.kind.of, in_memory=True)  # `= {0}`: the first element
            self._initialise(given, part)
            at += 1
