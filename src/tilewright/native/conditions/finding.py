"""Finds the conditions in a compiler's listing whose results are to be recorded."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tilewright.core.records import Failed
from tilewright.native.conditions.contexts import with_own_copies
from tilewright.native.conditions.dependence import Analysis, sites_on_data
from tilewright.native.conditions.facts import Site
from tilewright.native.conditions.listing import Instruction, Listing, read_listing
from tilewright.native.conditions.sequences import read_as_float, read_as_whole_number
from tilewright.native.conditions.stack_cells import width_of
from tilewright.native.conditions.surroundings import OF_C, Surroundings
from tilewright.native.conditions.values import is_addressed
from tilewright.parts.machine_code.post_dominance import TooLargeError
from tilewright.parts.untested_conditions import unexamined

MOST_SITES = 4096
"""Maximum number of conditions on data in a kernel that is accepted."""
MOST_SEQUENCES = 20_000
"""Maximum number of instructions whose whole numbers are recorded, and of those whose
floating-point numbers are."""


@dataclass(frozen=True, slots=True)
class Found:
    """A listing in which each call of a function with conditions has a copy of the function, its
    conditions on data, and its jumps to addresses that depend on data.
    """

    listing: Listing
    sites: tuple[Site, ...]
    jumps: tuple[Site, ...]


def found_in(text: str, file: str, around: Surroundings) -> Found | Failed:
    """The conditions on data in a listing of the source `file`."""
    listing = read_listing(text, file)
    try:
        sites = _sites(listing, around)
        apart = with_own_copies(listing, listing.functions_of(s.instruction for s in sites))
        if apart is not None:
            listing = read_listing(apart, file)
            sites = _sites(listing, around)
    except TooLargeError as error:
        return unexamined(str(error))
    if len(sites) > MOST_SITES:
        many = f"{len(sites)} conditions depend on input values, more than {MOST_SITES}."
        return unexamined(many)
    jumps = tuple(site for site in sites if site.is_jump)
    return Found(listing, tuple(site for site in sites if not site.is_jump), jumps)


def loads_of(listing: Listing, around: Surroundings) -> list[Site]:
    """The instructions that may read data from memory, with the operands whose values can be
    recorded. Raises `TooLargeError`."""
    analysis = Analysis(listing, around)
    analysis.run()
    found = []
    for _, (one, operand) in sorted(analysis.sources.items()):
        width = width_of(one.name, one.operands)
        if width in (1, 2, 4, 8) and is_addressed(operand):
            found.append(Site(one, value=(operand, width), is_load=True))
    return found


def sequences_of(listing: Listing) -> list[Site]:
    """The instructions of a kernel in C that write, or read from memory, numbers that may depend on
    data. Raises `TooLargeError`."""
    analysis = Analysis(listing, OF_C, decisions=False)
    analysis.run()
    found = _numbers_of(analysis)
    for one, operand in analysis.sources.values():
        width = read_as_whole_number(one, operand)
        place = read_as_float(one, operand)
        if width is not None:
            found.append(Site(one, value=(operand, width), is_load=True))
        elif place is not None:
            is_after = place[0] != operand
            read = Site(one, value=place, is_load=True, is_result=is_after, is_float=True)
            found.append(read)
    floats = sum(site.is_float for site in found)
    if max(floats, len(found) - floats) > MOST_SEQUENCES:
        raise TooLargeError
    return found


def numbers_of(listing: Listing, around: Surroundings) -> list[Site]:
    """The instructions that write numbers that may depend on data. Raises `TooLargeError`."""
    analysis = Analysis(listing, around, decisions=False)
    analysis.run()
    found = _numbers_of(analysis)
    if len(found) > MOST_SEQUENCES:
        raise TooLargeError
    return found


def products_and_sums_of(listing: Listing, around: Surroundings) -> list[Instruction]:
    """The instructions that multiply, add or subtract two floats that may depend on data; none if
    the listing computes floats only in these ways. Raises `TooLargeError`."""
    analysis = Analysis(listing, around, decisions=False)
    analysis.run()
    others = (one for one, places in analysis.floats.values() if places)
    if all(one.at in analysis.products_and_sums for one in others):
        return []
    return [one for _, one in sorted(analysis.products_and_sums.items())]


def computed_without(
    listing: Listing,
    loads: Collection[int],
    addresses: Collection[int] = (),
    around: Surroundings = OF_C,
) -> frozenset[int]:
    """The lines of a kernel with conditions, and with numbers, that are computed from data, without
    those that are only set under a condition on data. The loads of the given lines count as no
    data, and so do those of addresses, unless a whole number from data may have been written where
    they read. Raises `TooLargeError`."""
    analysis = Analysis(listing, around, loads, addresses, decisions=False)
    conditions = {site.instruction.at for site in analysis.run()}
    return frozenset(conditions | set(analysis.numbers) | set(analysis.floats))


def _numbers_of(analysis: Analysis) -> list[Site]:
    return [
        Site(one, value=place, is_result=True, is_float=is_float)
        for is_float, written in ((False, analysis.numbers), (True, analysis.floats))
        for one, places in written.values()
        for place in places
    ]


def _sites(listing: Listing, around: Surroundings) -> list[Site]:
    """The conditions on data, if `around` says so only those that have a line of the source."""
    sites = sites_on_data(listing, around)
    return [s for s in sites if s.instruction.line or not around.only_own_lines]
