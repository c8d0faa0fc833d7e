"""What a bundle may say: how long something takes is up to whoever verifies."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright import bundle_creation
from tilewright.core.codec import to_json
from tilewright.core.config import Settings
from tilewright.core.records import (
    Candidate,
    Check,
    Failed,
    Measured,
    Plan,
    RunRecord,
    Verdict,
    Workload,
)
from tilewright.storage.evidence import read_evidence

PROGRAM = "command:/home/ada/bin/llm --token-file /home/ada/token"


def document(**settings: object) -> dict[str, Any]:
    outcome = to_json(Measured(2.0, "ns", "measured", 0.5, Verdict((Check(1, "small"),))))
    recorded = {**Settings().recorded(), **settings}
    return {
        "run": {"task": "toy:digits", "settings": to_json(recorded), "versions": {"toy": "1"}},
        "workload": to_json(Workload("toy:digits", "toy", (), 4)), "files": {}, "start": "a",
        "winner": "b", "start_outcome": outcome, "winner_outcome": outcome,
    }  # fmt: skip


def test_a_bundle_does_not_say_how_long_its_kernels_may_take() -> None:
    forged = document(simulation_timeout_s=1e12, compile_timeout_s=1e12, checks=10**9)
    assert read_evidence(forged).settings == Settings()


def test_a_bundle_says_on_which_target_and_in_which_order() -> None:
    evidence = read_evidence(document(target="toy", target_settings={"ordering": "timing"}))
    assert evidence.settings == Settings(target="toy", target_settings={"ordering": "timing"})


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ("no such file: /home/ada/llm/run.sh", "no such file: run.sh"),
        ('File "/opt/venv/lib/python3.12/site.py", line 4', 'File "site.py", line 4'),
        ("8 / 16 of a/b/c, http://x.org/a/b", "8 / 16 of a/b/c, http://x.org/a/b"),
    ],
)
def test_paths_of_this_machine_stay_here(text: str, public: str) -> None:
    failed = bundle_creation._public(Failed("check", "crash", text))
    assert failed["log"] == public


def test_commands_of_this_machine_stay_here() -> None:
    plan = Plan("1", "hoist", "Hoist.", PROGRAM)
    written = bundle_creation._public(Candidate("// see /home/ada/kernel.c", "1", plan, PROGRAM))
    assert (written["proposer"], written["plan"]["proposer"]) == ("command", "command")
    assert written["source"] == "// see /home/ada/kernel.c"
    settings = Settings(proposers=(PROGRAM, "openai/m@http://10.0.0.7/v1?key_env=K")).recorded()
    run = RunRecord(
        "1", "toy:digits", "toy", settings, {}, "2026-01-01", "interrupted",
        f"interrupted: ModelError: model {PROGRAM} ended",
    )  # fmt: skip
    assert bundle_creation._public_settings(run)["proposers"] == ["command", "openai/m"]
    assert bundle_creation._public_reason(run) == "interrupted: ModelError: model command ended"
