"""The built-in rewriter of accelerator commands: a proposer that needs neither a key nor a
model."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.proposers.rewriter.proposer import RewriterProposer


def create_proposer() -> RewriterProposer:
    """The entry point, which imports the implementation."""
    from tilewright.proposers.rewriter.proposer import RewriterProposer

    return RewriterProposer()
