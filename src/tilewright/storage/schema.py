"""The tables of the project database after the newest migration.

    runs 1--* trials *--1 artifacts (the trial's source)
    runs 1--* events
    runs 1--* calls (to models; a reply answers the same call of later runs too)
    outcomes (the cache, by content key; shared by all runs)
    tunings 1--* tuning_trials (runs of the tuner)
    tunings 1--0..1 tuned_kernels (the best kernel of a run on a GPU)

Records are stored as JSON text (`core.codec`). The other columns contain the values by which
queries filter.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy import Text as AnyText

metadata = MetaData()


class Text(TypeDecorator[str]):
    """Text that PostgreSQL can store, which allows no zero bytes. Logs of crashes may contain zero
    bytes.
    """

    impl = AnyText
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Any) -> str | None:
        """Zero bytes become replacement characters."""
        return value and value.replace("\0", "\N{REPLACEMENT CHARACTER}")


runs = Table(
    "runs",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("id", String(32), nullable=False, unique=True),
    Column("identity", String(16), nullable=False, index=True),
    Column("task", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("settings", Text, nullable=False),
    Column("versions", Text, nullable=False),
    Column("created_at", String(40), nullable=False),
    Column("status", String(16), nullable=False),
    Column("stop_reason", Text, nullable=False),
    Column("wall_s", Float, nullable=False),
)

artifacts = Table(
    "artifacts",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("size", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
)

trials = Table(
    "trials",
    metadata,
    Column("run_id", String(32), ForeignKey("runs.id"), primary_key=True),
    Column("index", Integer, primary_key=True),
    Column("iteration", Integer, nullable=False),
    Column("candidate_id", String(16), nullable=False),
    Column("parent_id", String(16)),
    Column("proposer", Text, nullable=False),
    Column("plan", Text),
    Column("source_digest", String(64), ForeignKey("artifacts.digest"), nullable=False),
    Column("outcome", Text, nullable=False),
    Column("latency", Float),
    Column("binary_digest", String(64), nullable=False),
    Column("wall_s", Float, nullable=False),
    Column("cached", Boolean, nullable=False),
    Index("ix_trials_candidate_id", "candidate_id"),
    # Counts and the lowest latencies are read from this index alone, without the texts of trials.
    Index("ix_trials_latency", "run_id", "index", "latency"),
)

outcomes = Table(
    "outcomes",
    metadata,
    Column("key", String(128), primary_key=True),
    Column("outcome", Text, nullable=False),
    # Set if only a lower bound on the latency is known, so that the row may be replaced.
    Column("bound", Float),
)

events = Table(
    "events",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("run_id", String(32), ForeignKey("runs.id"), nullable=False, index=True),
    Column("at", String(40), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("data", Text, nullable=False),
)

calls = Table(
    "calls",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("run_id", String(32), ForeignKey("runs.id"), nullable=False),
    Column("key", String(16), nullable=False, index=True),
    Column("model", Text, nullable=False),
    Column("phase", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    Column("cached", Boolean, nullable=False),
    Column("input_tokens", Integer),
    Column("cached_tokens", Integer),
    Column("output_tokens", Integer),
    Column("reasoning_tokens", Integer),
    Column("usd", Float),
    Column("counted_usd", Float, nullable=False),
    Column("counted_tokens", Integer, nullable=False),
    Column("served_by", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("note", Text, nullable=False),
    Column("request", Text, nullable=False),
    Column("reply", Text),
    Column("intended_at", String(40), nullable=False),
    Column("finished_at", String(40)),
    UniqueConstraint("run_id", "key"),
)

tunings = Table(
    "tunings",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("id", String(32), nullable=False, unique=True),
    Column("identity", String(32), nullable=False, index=True),
    Column("workload", Text, nullable=False),
    Column("family", String(32), nullable=False, index=True),
    Column("extents", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("settings", Text, nullable=False),
    Column("versions", Text, nullable=False),
    Column("starts", Text, nullable=False),
    Column("status", String(16), nullable=False),
    Column("wall_s", Float, nullable=False),
    Column("created_at", String(40), nullable=False),
)

tuned_kernels = Table(
    "tuned_kernels",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("tuning_id", String(32), ForeignKey("tunings.id"), nullable=False, unique=True),
    Column("workload", Text, nullable=False),
    Column("device", Text, nullable=False),
    Column("method", Text, nullable=False),
    Column("trials", Integer, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("source", Text, nullable=False),
)

tuning_trials = Table(
    "tuning_trials",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("tuning_id", String(32), ForeignKey("tunings.id"), nullable=False),
    Column("key", String(32), nullable=False),
    Column("point", Text),
    Column("trace", Text, nullable=False),
    Column("samples", Text, nullable=False),
    Column("calls", Integer, nullable=False),
    Column("failure", String(16)),
    Column("log", Text, nullable=False),
    Column("predicted", Float),
    Column("elapsed_s", Float, nullable=False),
    UniqueConstraint("tuning_id", "key"),
)
