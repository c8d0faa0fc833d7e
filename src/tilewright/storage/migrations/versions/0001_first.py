"""Runs, trials, artifacts, the outcome cache and the event log."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create every table."""
    op.create_table(
        "runs",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("id", sa.String(32), nullable=False, unique=True),
        sa.Column("identity", sa.String(16), nullable=False),
        sa.Column("task", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("versions", sa.Text, nullable=False),
        sa.Column("created_at", sa.String(40), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("stop_reason", sa.Text, nullable=False),
        sa.Column("wall_s", sa.Float, nullable=False),
    )
    op.create_index("ix_runs_identity", "runs", ["identity"])
    op.create_table(
        "artifacts",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "trials",
        sa.Column("run_id", sa.String(32), sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("index", sa.Integer, primary_key=True),
        sa.Column("iteration", sa.Integer, nullable=False),
        sa.Column("candidate_id", sa.String(16), nullable=False),
        sa.Column("parent_id", sa.String(16)),
        sa.Column("proposer", sa.Text, nullable=False),
        sa.Column("plan", sa.Text),
        sa.Column(
            "source_digest", sa.String(64), sa.ForeignKey("artifacts.digest"), nullable=False
        ),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("latency", sa.Float),
        sa.Column("binary_digest", sa.String(64), nullable=False),
        sa.Column("wall_s", sa.Float, nullable=False),
        sa.Column("cached", sa.Boolean, nullable=False),
    )
    op.create_index("ix_trials_candidate_id", "trials", ["candidate_id"])
    op.create_table(
        "outcomes",
        sa.Column("key", sa.String(128), primary_key=True),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("bound", sa.Float),
    )
    op.create_table(
        "events",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("run_id", sa.String(32), sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("at", sa.String(40), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("data", sa.Text, nullable=False),
    )
    op.create_index("ix_events_run_id", "events", ["run_id"])
