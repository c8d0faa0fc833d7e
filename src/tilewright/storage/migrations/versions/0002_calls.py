"""Calls to models."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the table of calls."""
    op.create_table(
        "calls",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("run_id", sa.String(32), sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("key", sa.String(16), nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("phase", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("cached", sa.Boolean, nullable=False),
        sa.Column("input_tokens", sa.Integer),
        sa.Column("cached_tokens", sa.Integer),
        sa.Column("output_tokens", sa.Integer),
        sa.Column("reasoning_tokens", sa.Integer),
        sa.Column("usd", sa.Float),
        sa.Column("counted_usd", sa.Float, nullable=False),
        sa.Column("counted_tokens", sa.Integer, nullable=False),
        sa.Column("served_by", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("reply", sa.Text),
        sa.Column("intended_at", sa.String(40), nullable=False),
        sa.Column("finished_at", sa.String(40)),
        sa.UniqueConstraint("run_id", "key"),
    )
    op.create_index("ix_calls_key", "calls", ["key"])
