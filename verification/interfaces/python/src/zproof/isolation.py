"""A separate process for the callable: its crash is a verdict and does not end this process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

_HUNG, _CRASHED = 5, 6


def run_worker(argv: list[str], name: str, timeout: float) -> int:
    """Runs the same command line in a new interpreter and returns its exit code; 5 if it did not return in
    ``timeout`` seconds, 6 if it ended without a verdict."""
    if not timeout > 0:
        sys.stderr.write(f"zproof: --timeout is {timeout:g} (the callable needs some time); use seconds above 0\n")
        return 2
    read, write = os.pipe()
    code = f"from zproof.isolation import work; work({write})"
    worker = subprocess.Popen([sys.executable, "-X", "faulthandler", "-c", code, *argv, "--in-process"],
                              pass_fds=[write])
    os.close(write)
    try:
        worker.wait(timeout)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()
        return _say("HUNG", name, f"it did not return within {timeout:g} seconds", _HUNG)
    except KeyboardInterrupt:
        worker.kill()
        worker.wait()
        return 130
    finally:
        with os.fdopen(read, "rb") as pipe:  # the writers are gone, or only orphaned children are left
            os.set_blocking(pipe.fileno(), False)
            said = pipe.read() or b""
    if said:
        return int(said)
    if worker.returncode < 0:
        return _say("CRASHED", name, f"its process died of {signal.Signals(-worker.returncode).name}", _CRASHED)
    return _say("CRASHED", name, f"its process ended by itself, with code {worker.returncode}, before a verdict", _CRASHED)


def work(pipe: int) -> None:
    """In the child process: the command line without the process, and its exit code through the pipe."""
    os.set_inheritable(pipe, False)
    from .cli import main

    code = main(sys.argv[1:])
    sys.stdout.flush()
    os.write(pipe, str(code).encode())
    sys.exit(code)


def _say(verdict: str, name: str, reason: str, code: int) -> int:
    sys.stdout.flush()
    print(f"{verdict} {name}\n  reason    {reason}\n\n0 pass, 1 {verdict.lower()}")
    return code
