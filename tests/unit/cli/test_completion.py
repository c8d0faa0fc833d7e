"""Shell completion of the script `tw`, whose path is not a name of a shell variable."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

COMPLETE = """
source completion.sh
complete -p tw >/dev/null || exit 3
COMP_WORDS=(./tw runs ex); COMP_CWORD=2
_tw_completion ./tw
echo "${COMPREPLY[@]}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_of_the_script(tmp_path: Path) -> None:
    script = tmp_path / "tw"
    # As the real script: sh starts the command, and some shells drop variables with other names.
    script.write_text(
        f'#!/bin/sh\nTILEWRIGHT_COMMAND="$0" exec "{sys.executable}" -m tilewright.cli "$@"\n'
    )
    script.chmod(0o755)
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    shown = subprocess.run(
        ["./tw", "--show-completion", "bash"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    (tmp_path / "completion.sh").write_text(shown.stdout)
    done = subprocess.run(
        ["bash", "-c", COMPLETE], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["export"]
