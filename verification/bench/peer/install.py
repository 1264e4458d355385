"""PyTorch and DeepSpeed, from PyPI, in a separate folder."""

import subprocess
import sys
from pathlib import Path

from peer.report import Problem, say

TORCH = ("torch==2.15.0", "numpy==2.4.6")
DEEPSPEED = ("deepspeed==0.19.8", "ninja==1.13.2")


def pip(venv, packages, log):
    command = [venv / "bin/python", "-m", "pip", "install", "--disable-pip-version-check", "--retries", "2",
               "--progress-bar", "off", *packages]
    with open(log, "w", encoding="utf-8") as out:
        return subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False).returncode == 0


def last_line(log):
    text = Path(log).read_text(encoding="utf-8", errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "ERROR" in line]
    return (errors or lines or ["no output"])[-1][:200]


def installed(venv, packages):
    """Installs missing packages. Returns "" or the reason of a failure."""
    mark = venv / ("zeroproof-" + packages[0].split("=")[0])
    if mark.exists() and mark.read_text(encoding="utf-8").split() == list(packages):
        return ""
    say(f"installing {' '.join(packages)} from PyPI into {venv}, which takes minutes")
    log = venv / "pip.log"
    if not pip(venv, packages, log):
        return f"pip could not install {packages[0]}: {last_line(log)}"
    mark.write_text(" ".join(packages), encoding="utf-8")
    return ""


def prepare_venv(venv, peers):
    """Returns the unavailable peers, with the reason."""
    if not (venv / "bin/python").exists():
        say(f"making {venv}")
        made = subprocess.run([sys.executable, "-m", "venv", venv], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            raise Problem(3, f"python3 -m venv {venv} failed", "PyTorch is kept out of the system's Python",
                          "install python3-venv, or name a folder you may write to with --venv")
    why = installed(venv, TORCH)
    if why:
        raise Problem(3, "PyTorch is not here and " + why, "it is what zeroproof is compared with",
                      "connect to the network, or name a folder that has it with --venv")
    why = installed(venv, DEEPSPEED) if "deepspeed" in peers else ""
    return {"deepspeed": why} if why else {}
