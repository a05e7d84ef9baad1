"""Processes that end with the one that has started them, whatever became of it."""

import os
import threading

VARIABLE = "QKV_LIFELINE"  # set for a process that another started and whose standard input is its lifeline
GONE = 130  # the exit code of one that was left alone, as after Ctrl-C


def leave_with_parent() -> None:
    """End at once when standard input closes: then the process that started this one is gone."""

    def watch() -> None:
        os.read(0, 1)  # not by sys.stdin, whose lock this thread would hold when the process ends
        os._exit(GONE)

    threading.Thread(target=watch, daemon=True).start()
