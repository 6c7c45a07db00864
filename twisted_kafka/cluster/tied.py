"""A program that becomes another one, which ends when the process that started it does, whatever ended that.

    python tied.py PARENT COMMAND...

Run as a file, so that it starts in milliseconds. The command has a session of its own: what a terminal sends to the foreground,
such as Ctrl-C, reaches the parent alone. Linux tells of a parent's death (prctl(2), PR_SET_PDEATHSIG); elsewhere this program
stays and looks for it.
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
    """Run the command; return its exit status where it cannot take this process's place."""
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
