"""The best kernels of tuning runs on GPUs."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Create the table of tuned kernels."""
    op.create_table(
        "tuned_kernels",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column(
            "tuning_id", sa.String(32), sa.ForeignKey("tunings.id"), nullable=False, unique=True
        ),
        sa.Column("workload", sa.Text, nullable=False),
        sa.Column("device", sa.Text, nullable=False),
        sa.Column("method", sa.Text, nullable=False),
        sa.Column("trials", sa.Integer, nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
    )
