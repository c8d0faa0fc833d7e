"""A panel that is redrawn on a terminal while a command works, and removed when the command
ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live

from tilewright.cli.console import notes

REFRESHES_PER_SECOND = 4


class LivePanel(ABC):
    """Context manager that shows `panel` on a terminal; elsewhere `_live` is None."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or notes()
        self._live = (
            Live(
                get_renderable=self.panel,
                refresh_per_second=REFRESHES_PER_SECOND,
                transient=True,
                console=self._console,
            )
            if self._console.is_terminal
            else None
        )

    @abstractmethod
    def panel(self) -> RenderableType:
        """The content to draw now."""

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()
