"""CUDA kernels of many styles as folders of a user's own (tests/fixtures/cuda/kernels.toml)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

FIXTURES = Path(__file__).parents[2] / "fixtures" / "cuda"


@dataclass(frozen=True)
class Mistake:
    """`old` becomes `new`; the failure is one of `kinds`, at a line that contains `line`."""

    old: str
    new: str
    kinds: tuple[str, ...]
    line: str = ""


@dataclass(frozen=True)
class OtherKernel:
    """An entry of kernels.toml."""

    name: str
    arrays: tuple[str, ...]
    reference: str
    mistakes: tuple[Mistake, ...]
    not_checked: str
    tolerance: tuple[float, ...]
    inputs: str

    @property
    def source(self) -> str:
        return (FIXTURES / f"{self.name}.cu").read_text()

    def with_mistake(self, mistake: Mistake) -> str:
        assert mistake.old in self.source, mistake.old
        return self.source.replace(mistake.old, mistake.new, 1)

    def write(self, folder: Path) -> Path:
        """Make the folder: workload.toml, reference.py and kernel.cu."""
        folder.mkdir(exist_ok=True)
        rows = [array.split() for array in self.arrays]
        text = f'target = "cuda"\nname = "{self.name}"\noperations = 100000\n'
        for name, dtype, shape, *output in rows:
            text += f'[[argument]]\nname = "{name}"\nshape = [{shape}]\ndtype = "{dtype}"\n'
            text += f'role = "{"output" if output else "input"}"\n'
            if not output and self.inputs:
                text += f"inputs = {{ {self.inputs} }}\n"
        if self.tolerance:
            absolute, relative = self.tolerance
            text += f"[tolerance]\nabsolute = {absolute}\nrelative = {relative}\n"
        (folder / "workload.toml").write_text(text)
        names = ", ".join(name for name, _, _, *output in rows if not output)
        body = "\n".join(f"    {line}" for line in self.reference.strip().split("\n"))
        (folder / "reference.py").write_text(
            f"import numpy as np\n\n\ndef reference({names}):\n{body}\n"
        )
        (folder / "kernel.cu").write_text(self.source)
        return folder


def _read(entry: dict) -> OtherKernel:  # type: ignore[type-arg]
    mistakes = (
        Mistake(m["old"], m["new"], tuple(m["kinds"]), m.get("line", ""))
        for m in entry.get("mistake", [])
    )
    return OtherKernel(
        entry["name"],
        tuple(entry["arrays"]),
        entry["reference"],
        tuple(mistakes),
        entry.get("not_checked", ""),
        tuple(entry.get("tolerance", ())),
        entry.get("inputs", ""),
    )


KERNELS = tuple(
    _read(entry) for entry in tomllib.loads((FIXTURES / "kernels.toml").read_text())["kernel"]
)
