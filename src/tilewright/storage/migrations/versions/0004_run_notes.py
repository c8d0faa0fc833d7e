"""Notes of a run are stored under the names of their records."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_RENAMED = {"LeftAlone": "Survey", "Schedule": "ReusedSchedule"}


def upgrade() -> None:
    """Rename the two kinds that were named otherwise."""
    events = sa.table("events", sa.column("kind", sa.String))
    for old, new in _RENAMED.items():
        op.execute(events.update().where(events.c.kind == old).values(kind=new))
