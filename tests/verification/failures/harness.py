"""Runs the command in a separate folder, and lists the files and processes left over."""

import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import uuid

SHARED = pathlib.Path("/dev/shm")


class Run:
    """A command whose processes have a mark in their environment, and whose files are in one folder."""

    def __init__(self, program, arguments, *, report=True, **variables):
        self.mark = "ZP_TEST_MARK=" + uuid.uuid4().hex
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="zpf"))  # short: Open MPI puts sockets below
        self.temporary = self.folder / "t"
        self.temporary.mkdir()
        self.report = self.folder / "r.json"
        name, value = self.mark.split("=")
        environment = dict(os.environ, TMPDIR=str(self.temporary), **{name: value}, **variables)
        for launched in [key for key in environment if key.startswith(("OMPI_COMM", "PMI", "ZP_MPI"))]:
            del environment[launched]
        self.out = open(self.folder / "out", "wb")
        self.err = open(self.folder / "err", "wb")
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [program, *arguments, *(["--report", f"text,json:{self.report}"] if report else [])],
            env=environment, stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.err, start_new_session=True,
            restore_signals=True,
            preexec_fn=lambda: [signal.signal(s, signal.SIG_DFL) for s in (signal.SIGINT, signal.SIGHUP)])

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for pid in self.processes():
            kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        self.out.close()
        self.err.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def processes(self):
        """All living processes, including the command."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if self.mark.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                pass
        return found

    def send(self, number):
        self.sent = time.monotonic()
        kill(self.process.pid, number)

    def wait(self, limit):
        """Seconds it took, or None if it did not end."""
        begin = time.monotonic()
        try:
            self.process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        return time.monotonic() - begin

    def job_runs_within(self, limit):
        """True once every visible rank has begun its steps."""
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline and self.process.poll() is None:
            flights = list(self.temporary.glob("zeroproof-job-*/flight.*"))
            if flights and all(b"step" in flight.read_bytes() for flight in flights):
                return True
            time.sleep(0.02)
        return False

    def hears_within(self, number, limit):
        """True once the command has a handler for a signal."""
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline and self.process.poll() is None:
            status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
            caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
            if int(caught.split()[1], 16) >> (number - 1) & 1:
                return True
            time.sleep(0.005)
        return False

    def rank(self, number):
        """The process of a rank, once it has begun its steps; else None."""
        for pid in self.processes():
            try:
                variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                program = pathlib.Path(os.readlink(f"/proc/{pid}/exe")).name
            except OSError:
                continue
            if program in ("sh", "dash", "bash", "busybox"):  # MPICH's ranks have one around them
                continue
            if b"OMPI_COMM_WORLD_RANK=%d" % number in variables or b"PMI_RANK=%d" % number in variables:
                return pid
        return None

    def gone_within(self, limit):
        """A process that becomes another program (the guard becomes rm) has no visible environment for a moment."""
        deadline = time.monotonic() + limit
        looks_without = 0
        while looks_without < 4:
            looks_without = 0 if self.processes() else looks_without + 1
            if time.monotonic() > deadline and looks_without == 0:
                return False
            time.sleep(0.05)
        return True

    def cases(self):
        return json.loads(self.report.read_text())["cases"] if self.report.exists() else []

    def errors(self):
        self.err.flush()
        return (self.folder / "err").read_text(errors="replace")

    def output(self):
        return (self.folder / "out").read_text(errors="replace")

    def litter(self):
        return sorted(str(path) for path in self.temporary.iterdir())


def kill(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def abandoned():
    """Folders in shared memory that no living process has locked; those of other tests that run now are locked."""
    found = set()
    for folder in SHARED.glob("zeroproof-job-*"):
        try:
            with open(folder / "lock", "r+b") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found.add(folder.name)
        except OSError:
            pass
    return found
