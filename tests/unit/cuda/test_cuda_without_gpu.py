"""A search without a GPU is refused in one sentence, before anything is run or stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.cli.main import main


@pytest.mark.parametrize("proposer", ["builtin", "command:true"])
def test_optimize_says_what_is_missing_and_what_can_be_done(
    proposer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["optimize", "cuda:rowsum-8x64", "--project", str(tmp_path / "p")]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--proposer", proposer, "--budget", "5 s"])
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert len(said.err.strip().splitlines()) == 1
    for part in ("no NVIDIA GPU", "cannot be optimised on this machine", "tilewright check"):
        assert part in said.err
    assert not (tmp_path / "p").exists()
