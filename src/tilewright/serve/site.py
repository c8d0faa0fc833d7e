"""The data that all pages, streams and buttons of one server use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.serve.access_control import Access
    from tilewright.serve.project import ServedProject


@dataclass(frozen=True, slots=True)
class Site:
    """The project that is shown, its access control, and whether anything may be changed."""

    project: ServedProject
    access: Access
    read_only: bool
