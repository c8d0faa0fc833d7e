"""Counts and the lowest latencies of a run are read without the texts of its trials."""

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Create the index."""
    op.create_index("ix_trials_latency", "trials", ["run_id", "index", "latency"])
