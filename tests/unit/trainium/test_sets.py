"""Sets in kernels, and what changes lists, dicts and sets in place."""

from __future__ import annotations

import numpy as np
import pytest
from nki_world import Kernel, numbers, refused

X = numbers(4, 8)


def test_sets_keep_their_members_and_change_in_place() -> None:
    body = """
        local = set(range(2, 4)) | {0}
        odd = {j for j in range(6) if j % 2 == 1}
        seen = local & odd
        seen.add(5)
        also = seen
        seen |= {7}
        seen.update([1, 1], (9,))
        assert len(also) == 5 and sorted(also) == [1, 3, 5, 7, 9] and 9 in also and 2 not in also
        assert local - odd == {0, 2} and {3} <= local and isinstance(local, set)
        assert local.union(odd, [8]) == {0, 1, 2, 3, 5, 8} and not odd.difference(range(6))
        items = [1]
        same = items
        same += (2, 3)
        rows = {"a": items}
        rows["a"] += [4]
        items.extend(range(2))
        assert items == [1, 2, 3, 4, 0, 1] and same == items
        carried = same
        carried[2:] = (4,)
        carried[:1] = []
        carried[::2] = range(7, 8)
        assert items == [7, 4] and same == items
        items[:] = [1, 2, 3, 4, 0, 1]
        nl.store(out, nl.load(x) * float(sum(also) + len(items)))
    """
    np.testing.assert_array_equal(Kernel(body, x=X).run(), X * np.float32(31))


def test_methods_change_lists_and_dicts_in_place() -> None:
    body = """
        items = [1, 2, 3, 2]
        same = items
        items.remove(2)
        assert same == [1, 3, 2] and same.count(2) == 1 and (4, 4).count(4) == 2
        same.clear()
        items.append(5)
        places = {"a": 1}
        places.update({"b": 2})
        assert places.setdefault("a", 7) == 1 and places.setdefault("c", 3) == 3
        assert places.pop("b") == 2 and places.pop("b", 9) == 9 and sorted(places) == ["a", "c"]
        kept = places.copy()
        places.clear()
        nl.store(out, nl.load(x) * float(same[0] + len(kept) + len(places)))
    """
    np.testing.assert_array_equal(Kernel(body, x=X).run(), X * np.float32(7))


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("a = [1]\na.remove(2)", "index"),
        ("a = (1, 2).index(3)", "index"),
        ("a = {}\na.pop(1)", "index"),
        ("a = {}\na.update([1])", "unsupported_operand"),
        ("a = {1, 2}\nb = a[0]", "unsupported_operand"),
        ("a = {1} + {2}", "unsupported_operand"),
        ("a = [1, 2]\na[:] = 3", "unsupported_operand"),
        ("a = [1, 2]\na[::2] = [1, 2]", "index"),
        ("a = {(i, [i]) for i in range(2)}", "unsupported_operand"),
        ("a = set()\na.update(3)", "unsupported_operand"),
        ("a = {1}\na[1] = 2", "unsupported_assignment"),
    ],
)
def test_what_sets_lists_and_dicts_do_not_have_is_refused(line: str, code: str) -> None:
    refused(line, code, x=X)
