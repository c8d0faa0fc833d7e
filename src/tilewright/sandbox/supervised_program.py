"""A process that runs a program, and then ends everything that the program started.

    supervised_program.py CHANNEL

The first message is the command. Its standard input, output and error are those of this process.
The last message has its exit status, or the reason why it could not be started. The program is
ended when the channel is closed.

On Linux, no process of the program can escape by a session of its own or another environment. Only
a program that kills this process escapes.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time

from tilewright.sandbox.child import Channel, is_readable
from tilewright.sandbox.descendants import adopt_orphans, end_descendants

END_S = 5.0
"""Maximum number of seconds in which everything that the program started is ended."""
_LOOK_S = 0.02


def main(channel: Channel) -> None:
    """Run one program."""
    command = channel.receive_json()
    adopt_orphans()
    try:
        # In the session of this process, so that both end if the parent kills this session.
        process = subprocess.Popen(command)
    except (OSError, ValueError) as error:  # ValueError: the command contains a NUL character
        channel.send_json({"not_started": getattr(error, "strerror", None) or str(error)})
        return
    while process.poll() is None and not is_readable(channel.fileno(), time.monotonic() + _LOOK_S):
        pass
    if sys.platform == "linux":
        end_descendants(END_S)
    with contextlib.suppress(OSError):  # the parent has ended
        channel.send_json({"status": process.returncode})


if __name__ == "__main__":
    main(Channel(int(sys.argv[1])))
