"""puzzle watch: judges a file whenever it was saved."""

import os
import sys
import time

SECONDS = 0.2  # between two looks at the file
GREEN, RED, PLAIN = "\033[32m", "\033[31m", "\033[0m"


def saved_state(path):
    """What changes when a file is saved, also by an editor that replaces it; None while it is missing."""
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size, state.st_ino


def coloured(line):
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return line
    colour = GREEN if line.startswith("correct: ") else RED if line.startswith("FAIL ") else ""
    return colour + line + PLAIN if colour else line


def watch(path, judge):
    """Prints the lines of `judge()` now and after every save, until Ctrl-C or until no one reads them."""
    try:
        print(f"watching {path}; save it for a verdict, Ctrl-C ends", flush=True)
        judged = None
        while True:
            state = saved_state(path)
            if state is None or state == judged:
                time.sleep(SECONDS)
                continue
            time.sleep(SECONDS / 4)  # an editor may write in several parts
            if saved_state(path) != state:
                continue
            judged = state
            print(time.strftime("\n%H:%M:%S"), flush=True)
            print("\n".join(map(coloured, judge())), flush=True)
    except KeyboardInterrupt:
        print(flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
    return 0
