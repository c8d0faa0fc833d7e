"""The folder in which an agent works, with the task description, the kernel, and the access to the
tools.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tilewright.agents.clients import CLIENTS, Server, write
from tilewright.agents.protocol import SOCKET_VARIABLE
from tilewright.core.records import Brief, Trial
from tilewright.tools.mcp_server import target_texts
from tilewright.tools.toolbox import TOOLS

TASK_FILE = "TASK.md"
TILEWRIGHT = (sys.executable, "-P", "-m", "tilewright.cli")
"""The command line of this installation of tilewright."""

_TASK = """\
# Make a kernel faster

The kernel in `{kernel}` computes {workload} on {target} correctly{time}. Write a faster
kernel that computes the same results. Kernels are compared with the reference on inputs that you
cannot see. A kernel with any wrong result counts for nothing.

You can read `isa.md` (what the machine can do), `rules.md` (the rules for kernels), `menu.md`
(optimisations that made other kernels faster) and `costs.md` (what operations cost).

You have {share} evaluations and {minutes:g} minutes of your own; waiting for an evaluation does not
count. When you are done, submit your best kernel: that ends the work.
{known}
# The tools

A server of the Model Context Protocol named `tilewright` offers them; your configuration in this
folder names it. From a shell, the same tools are (a kernel is a file or an id):

```
./tilewright tool check {kernel}
./tilewright tool evaluate {kernel} --note "what was changed"
./tilewright tool profile best
./tilewright tool submit best
```

{tools}
"""


def task_text(brief: Brief, parent: Trial, share: int, timeout_s: float, known: str = "") -> str:
    """The task description for the agent, which is its standard input and the content of
    `TASK_FILE`.

    `known` lists findings of others, one per line; it may be empty.
    """
    unit = getattr(parent.outcome, "unit", "")
    time = f", in {parent.latency:,.0f} {unit}" if parent.latency is not None else ""
    return _TASK.format(
        kernel=brief.target.language.file,
        workload=brief.workload.name,
        target=brief.target.name,
        time=time,
        share=share,
        minutes=timeout_s / 60,
        known=f"\n# What others found in this run\n\n{known}\n" if known else "",
        tools="\n".join(f"- `{tool.usage}`: {tool.text}" for tool in TOOLS.values()),
    )


@contextmanager
def temporary() -> Iterator[Path]:
    """A folder for one agent, removed afterwards however deep an agent nested folders in it."""
    folder = Path(tempfile.mkdtemp(prefix="tilewright-agent-"))
    try:
        yield folder
    finally:
        # shutil.rmtree calls itself for each level, up to Python's limit of recursion.
        subprocess.run(["chmod", "-R", "u+rwx", folder], capture_output=True)
        subprocess.run(["rm", "-rf", "--", folder], capture_output=True)


def fill(folder: Path, brief: Brief, parent: Trial, text: str, socket: str) -> None:
    """Write the files of an agent's empty folder."""
    (folder / TASK_FILE).write_text(text)
    (folder / brief.target.language.file).write_text(parent.candidate.source)
    for name, said in target_texts(brief.target).items():
        (folder / f"{name}.md").write_text(said)
    environment: Mapping[str, str] = {SOCKET_VARIABLE: socket}
    for client in CLIENTS:
        write(client, Server((*TILEWRIGHT, "mcp"), environment), folder)
    script = folder / "tilewright"
    assignment = f"{SOCKET_VARIABLE}={shlex.quote(socket)}"
    script.write_text(f'#!/bin/sh\n{assignment} exec {shlex.join(TILEWRIGHT)} "$@"\n')
    script.chmod(0o755)
    (folder / "tmp").mkdir()
