"""The records of a run, which are passed on in one direction::

    Workload -> Plan -> Candidate -> Artifact -> Verdict -> Measured | Failed -> Trial -> storage
                  ^                                                              |
                  +------------------------- History (read-only) <---------------+

All are frozen and import only the standard library; `to_json`/`from_json` in `core.codec`
turn them into plain JSON for storage and for worker processes.

Other code imports records from this package. Its modules hold one subject each.
"""

from tilewright.core.records.failures import GENERAL_FAILURES, FailureKind, GeneralFailure, Stage
from tilewright.core.records.history import History, HistoryIndex, Trial
from tilewright.core.records.identity import content_id
from tilewright.core.records.outcomes import (
    BOUND_ERROR,
    PRECISIONS,
    Artifact,
    AttackResult,
    Baseline,
    Check,
    EvaluationRequest,
    ExternalResult,
    Failed,
    Gap,
    Measured,
    Outcome,
    Verdict,
)
from tilewright.core.records.proposals import Brief, Candidate, LeftAlone, Plan, Schedule
from tilewright.core.records.runs import NOTHING_WORTHWHILE, CallRecord, RunRecord
from tilewright.core.records.targets import (
    Cause,
    CommandEffect,
    Example,
    FolderTemplate,
    KernelLanguage,
    LatencyKind,
    MachineFact,
    MenuOption,
    Quantity,
    TargetBrief,
)
from tilewright.core.records.workloads import Argument, ArgumentRole, Tolerance, Workload

__all__ = [
    "BOUND_ERROR",
    "GENERAL_FAILURES",
    "NOTHING_WORTHWHILE",
    "PRECISIONS",
    "Argument",
    "ArgumentRole",
    "Artifact",
    "AttackResult",
    "Baseline",
    "Brief",
    "CallRecord",
    "Candidate",
    "Cause",
    "Check",
    "CommandEffect",
    "EvaluationRequest",
    "Example",
    "ExternalResult",
    "Failed",
    "FailureKind",
    "FolderTemplate",
    "Gap",
    "GeneralFailure",
    "History",
    "HistoryIndex",
    "KernelLanguage",
    "LatencyKind",
    "LeftAlone",
    "MachineFact",
    "Measured",
    "MenuOption",
    "Outcome",
    "Plan",
    "Quantity",
    "RunRecord",
    "Schedule",
    "Stage",
    "TargetBrief",
    "Tolerance",
    "Trial",
    "Verdict",
    "Workload",
    "content_id",
]
