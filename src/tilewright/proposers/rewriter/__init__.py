"""The built-in rewriter: a proposer that needs no key and no model."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.proposers.rewriter.proposer import RewriterProposer


def create_proposer() -> RewriterProposer:
    """The entry point; the implementation is imported only when it is called."""
    from tilewright.proposers.rewriter.proposer import RewriterProposer

    return RewriterProposer()
