"""Tuning runs and their trials."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the tables of tuning runs."""
    op.create_table(
        "tunings",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("id", sa.String(32), nullable=False, unique=True),
        sa.Column("identity", sa.String(32), nullable=False),
        sa.Column("workload", sa.Text, nullable=False),
        sa.Column("family", sa.String(32), nullable=False),
        sa.Column("extents", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("versions", sa.Text, nullable=False),
        sa.Column("starts", sa.Text, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("wall_s", sa.Float, nullable=False),
        sa.Column("created_at", sa.String(40), nullable=False),
    )
    op.create_index("ix_tunings_identity", "tunings", ["identity"])
    op.create_index("ix_tunings_family", "tunings", ["family"])
    op.create_table(
        "tuning_trials",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("tuning_id", sa.String(32), sa.ForeignKey("tunings.id"), nullable=False),
        sa.Column("key", sa.String(32), nullable=False),
        sa.Column("point", sa.Text),
        sa.Column("trace", sa.Text, nullable=False),
        sa.Column("samples", sa.Text, nullable=False),
        sa.Column("calls", sa.Integer, nullable=False),
        sa.Column("failure", sa.String(16)),
        sa.Column("log", sa.Text, nullable=False),
        sa.Column("predicted", sa.Float),
        sa.Column("elapsed_s", sa.Float, nullable=False),
        sa.UniqueConstraint("tuning_id", "key"),
    )
