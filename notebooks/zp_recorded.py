"""Faults without a name, and results of programs that are not installed. Used through zp.

A wheel has no planted faults and no simulated device. Where a lesson needs zeroproof-faults or
zeroproof-sim and it does not exist, it reads the stored result of the same command. ZP_RECORD=1
stores the results of a lesson, ZP_RECORD=check compares them with the programs' (tests do).
"""

import base64
import hashlib
import json
import os
import pathlib
import sys

import zp

FILE = pathlib.Path(__file__).with_name("recorded_results.json")
KEPT = {"": ("cases", "summary", "step", "loss", "grad_norm", "skipped", "loss_scale_log2", "sums"),
        "cases": ("id", "status", "reason", "compared", "differing", "divergence", "training"),
        "training": ("trajectory_hash", "stage", "phases"),
        "phases": ("phase", "buffer", "compared", "differing", "against")}  # the parts that lessons use

# The faults that readers have to find, encoded so that nobody reads a name by accident.
HIDDEN = {
    "?1": "cmVwbGljYXRlZC1jb3VudGVkLXBlci1yYW5r",
    "?1a": "YmYxNi1hY2N1bXVsYXRvcg==",
    "?1b": "c3VtLWluc3RlYWQtb2YtbWVhbg==",
    "?1c": "Zm91bmQtaW5mLW5vdC1nbG9iYWw=",
    "?2": "c2VuZGVycy1zaGFyZS1hLXN0YWNr",
    "?3": "ZXBzLXVuZGVyLWJpYXMtY29ycmVjdGlvbg==",
    "?4": "aHlzdGVyZXNpcy1ub3QtcmVmaWxsZWQ=",
    "?5": "c2hvcnQtcGllY2VzLWNvdW50ZWQtdHdpY2U=",
    "?6": "c2hhcmQtZnJvbS11bnBhZGRlZC1jb3VudA==",
    "?7": "dHJhbnNwb3J0LWNvcnJ1cHRzLWEtbGluZQ==",
    "?8": "c3RhbGUtdW5pdA==",
    "?9": "cmVwbGljYS1jb3VudGVkLWFzLXNoYXJk",
    "?10": "cmVzdW1lLXNoaWZ0cy1pbmRleA==",
    "?11": "Z2F0aGVyLW5vdC13YWl0ZWQtZm9y",
    "?12A": "ZG91YmxlLXVuc2NhbGU=",
    "?12B": "ZGVjYXktYWZ0ZXItdXBkYXRl",
    "?12C": "ZXBzLXVuZGVyLWJpYXMtY29ycmVjdGlvbg==",
    "?12D": "cG93ZXItYnktcnVubmluZy1wcm9kdWN0",
    "?12E": "bm9ybS1zcXVhcmVkLWluLWZwMzI=",
    "?12F": "c2tpcC1rZWVwcy1ub3Jt",
    "?13": "c2NhbGUtb2YtdGhlLXNoYXJk",
}


def digest(text):
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def fault_called(name):
    """The fault behind a name such as ?1; any other name is returned."""
    if not name.startswith("?"):
        return name
    return base64.b64decode(HIDDEN[name]).decode()


def _slim(value, place=""):
    """The parts of a report or a log that lessons use; other results as they are."""
    if isinstance(value, list):
        return [_slim(part, place) for part in value]
    if not isinstance(value, dict) or (place == "" and not {"cases", "sums"} & set(value)) or place not in KEPT:
        return value
    return {key: _slim(part, key) for key, part in value.items() if key in KEPT[place]}


def _stored():
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def _record(how, key, result):
    """Stores a result, or ends the lesson if the stored one is another ("check")."""
    stored = _stored()
    if how == "check":
        if stored.get(key) != json.loads(json.dumps(result)):
            zp.stop(f"{FILE.name} does not have this result (key {key}); run the lesson with ZP_RECORD=1", 1)
        return
    stored[key] = result
    rows = ",\n".join(f'"{one}": {json.dumps(stored[one], separators=(",", ":"))}' for one in sorted(stored))
    FILE.write_text(f"{{\n{rows}\n}}\n")


def planted_or_recorded(name, words, make):
    """make() where the program exists; otherwise the stored result of this command."""
    if name == "zeroproof":
        return make()
    key = digest(" ".join(map(str, words)))
    if zp.found(name):
        record = os.environ.pop("ZP_RECORD", "")  # of this result, and of none of which it is made
        result = make()
        if record:
            os.environ["ZP_RECORD"] = record
            _record(record, key, _slim(result))
        return result
    stored = _stored()
    if key not in stored:
        zp.stop(f"{name} is not installed and {FILE.name} has no result of this command; build it: "
                f"./verification/run, then cmake --build build --target {name}", 3)
    if not hasattr(planted_or_recorded, "told"):
        planted_or_recorded.told = True
        print(f"{name} is not installed: its results are read from {FILE.name}", file=sys.stderr)
    return stored[key]
