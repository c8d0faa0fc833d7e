"""There is an example for each target in examples/, and each example passes `tilewright check`."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tilewright.cli.capabilities import uncheckable
from tilewright.cli.main import main
from tilewright.core.plugins import load_target

ROOT = Path(__file__).parents[2]
EXAMPLES = {
    file.parent.name: tomllib.loads(file.read_text())["target"]
    for file in sorted(ROOT.glob("examples/*/workload.toml"))
}


def test_each_target_has_an_example() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    targets = {load_target(name).name for name in project["entry-points"]["tilewright.targets"]}
    assert targets == set(EXAMPLES.values())


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_passes_its_check(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    target = load_target(EXAMPLES[name])
    missing = [part for part, usable, _ in target.doctor() if usable is False]
    if (reason := uncheckable(target)) or missing:
        pytest.skip(reason or f"not installed: {', '.join(missing)}")
    with pytest.raises(SystemExit) as ended:
        main(["check", str(ROOT / "examples" / name)])
    said = capsys.readouterr()
    assert ended.value.code == 0, said.err
    assert "ok  kernel    agrees with the reference" in said.out
    assert "ok  reference" in said.out
