"""A program that runs a command, which ends when the process that started it ends for any reason.

    python tied.py PARENT COMMAND...

Run as a file, so that it starts in milliseconds. The command has its own session: a terminal's signals to the foreground, such as
Ctrl-C, reach only the parent. Linux reports a parent's death (prctl(2), PR_SET_PDEATHSIG); elsewhere this program stays and checks
for it.
"""

import ctypes
import os
import signal
import subprocess
import sys

_PR_SET_PDEATHSIG = 1
_LOOK_S = 0.5
_STOP_S = 5.0


def main(arguments: list[str], platform: str = sys.platform) -> int:
    """Run the command in place of this process, or, where that is impossible, as a child; then return its exit status."""
    parent, command = int(arguments[0]), arguments[1:]
    os.setsid()
    if platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:  # else it ended before
            os.execvp(command[0], command)
        return 1
    return _watch(parent, command)


def _watch(parent: int, command: list[str]) -> int:
    process = subprocess.Popen(command)
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    while True:
        try:
            return process.wait(_LOOK_S)
        except subprocess.TimeoutExpired:
            if os.getppid() != parent:
                process.kill()
                return process.wait(_STOP_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
