"""Each folder in examples/ passes `tilewright check`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.cli.main import main
from tilewright.targets.gemmini.toolchain import find_gcc, find_zig

EXAMPLES = sorted(
    file.parent for file in Path(__file__).parents[2].glob("examples/*/workload.toml")
)


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda folder: folder.name)
def test_an_example_passes_its_check(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if folder.name.startswith("gemmini") and find_gcc() is None and find_zig() is None:
        pytest.skip("no RISC-V cross compiler")
    with pytest.raises(SystemExit) as ended:
        main(["check", str(folder)])
    said = capsys.readouterr()
    assert ended.value.code == 0, said.err
    assert "ok  kernel    agrees with the reference" in said.out
    assert "ok  reference" in said.out
