"""All roles (interfaces) that plug-ins implement. Their methods receive records, never the search
itself.

The contract suite of the same name in `tilewright.testing` tests an implementation of a role.
Methods take and return whole batches, and report progress through small callbacks.

Other code imports roles from this package. Its modules hold one subject each.
"""

from tilewright.core.roles.evaluating import (
    NOTHING_CHECKED,
    Builder,
    Checker,
    Checkpoint,
    Executor,
    More,
    OnOutcome,
    Runner,
    Sandboxed,
)
from tilewright.core.roles.proposing import (
    FindsUnsupportedCode,
    LiveProposer,
    MenuFilter,
    OffersFactors,
    ParameterSearch,
    Proposer,
    Responder,
    SearchStrategy,
    StreamingPlanner,
)
from tilewright.core.roles.storing import CallStore, Storage
from tilewright.core.roles.targets import (
    Configurable,
    NeedsResource,
    OpensFiles,
    ProvidesFolderTemplate,
    RunsOnModels,
    Target,
)
from tilewright.core.roles.tasks import (
    Attackable,
    CheckCase,
    Containable,
    Data,
    DerivesKernels,
    ExplainsCode,
    ExternallySimulated,
    ExternalRun,
    FindsBrokenRules,
    HasLatencyFloor,
    LimitsWorkers,
    ModelsLatency,
    OffersTemplates,
    PublishedRules,
    ShowsCode,
    SkipsDistributions,
    Task,
    Untimed,
)

__all__ = [
    "NOTHING_CHECKED",
    "Attackable",
    "Builder",
    "CallStore",
    "CheckCase",
    "Checker",
    "Checkpoint",
    "Configurable",
    "Containable",
    "Data",
    "DerivesKernels",
    "Executor",
    "ExplainsCode",
    "ExternalRun",
    "ExternallySimulated",
    "FindsBrokenRules",
    "FindsUnsupportedCode",
    "HasLatencyFloor",
    "LimitsWorkers",
    "LiveProposer",
    "MenuFilter",
    "ModelsLatency",
    "More",
    "NeedsResource",
    "OffersFactors",
    "OffersTemplates",
    "OnOutcome",
    "OpensFiles",
    "ParameterSearch",
    "Proposer",
    "ProvidesFolderTemplate",
    "PublishedRules",
    "Responder",
    "Runner",
    "RunsOnModels",
    "Sandboxed",
    "SearchStrategy",
    "ShowsCode",
    "SkipsDistributions",
    "Storage",
    "StreamingPlanner",
    "Target",
    "Task",
    "Untimed",
]
