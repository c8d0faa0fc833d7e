"""The recorded run that ships with the project, and what replaying it must give.

    python tests/replay/llm/shipped_recording.py

records it anew with a scripted local model server. That is needed when the starting kernel, the
settings below or the order of calls change; not when cycles, menus, descriptions or templates do.
"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

from tilewright import run
from tilewright.core.config import Settings
from tilewright.core.plugins import load_target
from tilewright.core.records import Failed, History
from tilewright.models import recording
from tilewright.testing.model_server import ModelServer
from tilewright.testing.rewriter_model import RewriterModel

SPEC = "gemm-64x64x128"
TASK = f"gemmini:{SPEC}"
PORT = 8917
FOLDER = Path(__file__).parents[2] / "fixtures" / "recordings"
RECORDING = FOLDER / f"{SPEC}.jsonl"
TRAJECTORY = FOLDER / f"{SPEC}.json"
COMMAND = "python tests/replay/llm/shipped_recording.py"
SETTINGS = Settings(
    proposers=(f"openai/rewriter@http://127.0.0.1:{PORT}/v1?price=1:2",),
    seed=3,
    input_seed=1728949373,
    beam=1,
    plans=3,
    implementations=1,
    iterations=3,
    dropout=0.5,
    patience=3,
)


class FallibleModel(RewriterModel):
    """Real rewrites; now and then prose instead, or a kernel with a mistake it corrects if told."""

    def answer(self, prompt: str, key: str) -> str:
        if "# What is wrong with it" in prompt:
            broken = re.findall(r"after the change\n\n```c\n(.*?)```", prompt, re.DOTALL)[0]
            return "```c\n" + broken.replace("fence()\n", "fence();\n") + "```"
        text = super().answer(prompt, key)
        if "# Your task\n\nCarry out the plan" not in prompt:
            return text
        if key[0] in "01":
            return "I would start with the innermost loop of kernel()."
        return text.replace("fence();", "fence()") if key[0] in "46789" else text


def trajectory(history: History) -> list[dict[str, Any]]:
    """What a replay must repeat: every trial but its cycles, which a refit simulator changes."""
    steps = []
    for trial in history:
        parent = history.get(trial.candidate.parent_id or "")
        failed = isinstance(trial.outcome, Failed) and trial.outcome.kind != "slower_than_limit"
        steps.append(
            {
                "iteration": trial.iteration,
                "candidate": trial.candidate.id,
                "parent": parent.index if parent else None,
                "option": trial.candidate.plan.option if trial.candidate.plan else None,
                "correct": not failed,
            }
        )
    return steps


def record() -> None:
    """Write both files."""
    target = load_target("gemmini")
    model = FallibleModel(target.brief(), target.open(SPEC, {}).workload)
    with tempfile.TemporaryDirectory() as folder, ModelServer(answer=model.answer, port=PORT):
        project = Path(folder)
        summary = run.optimize(TASK, SETTINGS, project=project)
        storage = run.open_project(project)
        steps = trajectory(storage.history(summary.run_id))
        storage.close()
        FOLDER.mkdir(parents=True, exist_ok=True)
        RECORDING.write_text(recording(summary.run_id, project=project))
    TRAJECTORY.write_text(json.dumps(steps, indent=1) + "\n")
    print(f"{len(steps)} trials, {summary.speedup:.2f}x: {RECORDING} and {TRAJECTORY.name}")


if __name__ == "__main__":
    record()
