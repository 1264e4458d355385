"""Production by itself, with a fault and without: the run that a planted fault's case describes, and its results.

`zeroproof-faults train` makes the steps, without a judge. Standard library only.
"""

import array
import json
import pathlib
import re
import shutil
import struct
import subprocess

FLAGS = {"bucket": "--bucket", "omp": "--threads", "order": "--order", "windows": "--windows", "grid": "--grid",
         "instances": "--instances", "persistent": "--persistent", "layout": "--layout", "sum": "--sum",
         "offload": "--offload", "offload-place": "--offload-place", "offload-chunk": "--offload-chunk",
         "offload-grads": "--offload-grads"}

# The outcome of a run that production ended, by exit code (verification/cli/README.md).
CODES = {2: "settings that no run can have", 5: "ranks waited for each other in vain", 6: "ranks disagreed",
         7: "its checkpoint was refused", 9: "production noticed by itself"}


class Ended(Exception):
    """A run that ended with an error."""


def words_of(case_id):
    """The case as words of train, and the step after which it is saved and resumed (None: it is not)."""
    parts = case_id.split("/")
    if parts[0] == "resume":
        _, recipe, ranks, dtype, layouts, after = parts
        match = re.fullmatch(r"(\d+):(\d)-to-\1:\2", ranks)
        if not match or layouts != "contract-to-contract":
            raise ValueError(f"{case_id} goes on with other ranks (both halves are trained with the same words here)")
        words = ["--workload", "byte_gpt_tiny", "--recipe", recipe, "--world", f"threads:{match[1]}", "--stage",
                 match[2], "--dtype", dtype, "--bucket", "4096", "--threads", "1", "--impl", "host"]
        return words, int(after.split(":")[1])
    workload, recipe, implementation, stage, world, dtype, _, *rest = parts
    words = [] if workload == "recorded" else ["--workload", workload]
    words += ["--recipe", recipe, "--impl", implementation, "--stage", stage.replace("stage", ""), "--world", world, "--dtype",
              dtype]
    for part in rest:
        name, _, value = part.partition(":")
        words += ["--overlap"] if part == "overlap" else [FLAGS[name], value]
    return words, None


def on_host(words):
    """The same steps by the host's implementation, which has the same bits in a fraction of a simulated device's time."""
    return ["host" if before == "--impl" else word for before, word in zip(["", *words], words)]


def values(path):
    """{buffer: (dtype, bytes)} of the file that train --dump writes, tensors one after another."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    buffers = {}
    for name, about in header.items():
        begin, end = (8 + size + offset for offset in about["data_offsets"])
        buffer = name.split(".")[0]
        buffers[buffer] = (about["dtype"], buffers.get(buffer, ("", b""))[1] + data[begin:end])
    return buffers


class Runs:
    """Runs of train, each made once."""

    def __init__(self, program, folder):
        self.program, self.folder, self.kept = program, pathlib.Path(folder), {}

    def inputs(self, fault):
        """Settings and gradients of a fault's case, as words of train; the files are there if it needs any."""
        settings, gradients = (self.folder / f"{fault}.{ending}" for ending in ("toml", "safetensors"))
        return ([str(settings)] if settings.exists() else []) + (
            ["--gradients", str(gradients)] if gradients.exists() else [])

    def train(self, *words):
        """{"losses", "state", "buffers"} of a run; losses that are not finite are None."""
        if words not in self.kept:
            self.kept[words] = self.run(words)
        return self.kept[words]

    def resumed(self, after, *words):
        """The same of a run that is saved after a step, ends, and is gone on with."""
        folder = ["--checkpoint", str(self.folder / "checkpoints")]
        at = words.index("--steps") + 1
        shutil.rmtree(folder[1], ignore_errors=True)
        first = self.run([*words[:at], str(after), *words[at + 1:], *folder])
        rest = self.run([*words, *folder, "--resume"])
        assert len(first["losses"] + rest["losses"]) == int(words[at])
        return {**rest, "losses": first["losses"] + rest["losses"]}

    def run(self, words):
        """The same for a run that is not requested again."""
        dump, log = self.folder / "dump.safetensors", self.folder / "log.jsonl"
        log.unlink(missing_ok=True)
        done = subprocess.run([self.program, "train", *words, "--comm-timeout", "10", "--dump", str(dump), "--log",
                               str(log)], capture_output=True, text=True)
        if done.returncode != 0:
            said = re.search(r"^zeroproof: (.*) \(.*\); ", done.stderr, re.M)  # problem (why it matters); remedy
            if said and "--fault" in words:
                raise Ended(CODES[done.returncode])
            raise RuntimeError(f"train {' '.join(words)} ended with {done.returncode}: {done.stderr}")
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        return {"losses": [line["loss"] for line in lines if "loss" in line],
                "state": (re.search(r"^state (\w+)", done.stdout, re.M)[1], lines[-1]["applied_steps"],
                          lines[-1]["loss_scale_log2"]), "buffers": values(dump)}


def floats(buffer):
    """An fp32 or bf16 buffer of a dump, as numbers."""
    dtype, data = buffer
    assert dtype in ("F32", "BF16")
    if dtype == "BF16":  # the upper halves of fp32
        data = b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2))
    numbers = array.array("f")
    numbers.frombytes(data)
    return numbers
