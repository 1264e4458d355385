#!/usr/bin/env python3
"""everyday_table.py                   the record verification/bench/records/everyday_checks.json, check by check
everyday_table.py --faults           a line for every fault

everyday_checks.py makes the record.
"""

import collections
import json
import pathlib
import sys
import textwrap

RECORD = pathlib.Path(__file__).resolve().parents[1] / "records" / "everyday_checks.json"
NAMES = {"loss": "loss curve", "sum": "sum of master weights", "allclose_1e3": "allclose, rtol 1e-3",
         "allclose_1e5": "allclose, rtol 1e-5", "bits": "bits of parameters", "hash": "hash of the state",
         "phases": "phases"}
EVERYDAY = list(NAMES)[:-1]


def load(path):
    try:
        record = json.loads(path.read_text())
        assert record["schema"] == "zeroproof-checks/1"
        return record
    except (OSError, ValueError, KeyError, AssertionError) as error:
        sys.exit(f"everyday_table.py: {path} is no record of everyday_checks.py ({error!r}); make it with that")


def seen(fault, check):
    """True or False; None where the check does not apply."""
    return None if fault[check] is None else fault[check]["sees"]


def indented(names):
    lines = [""]
    for name in names:
        if len(lines[-1]) + len(name) > 96:
            lines.append("")
        lines[-1] += f"  {name}"
    return lines if names else ["  none"]


def reasons(faults):
    """The reasons of the other outcomes, with their numbers."""
    count = collections.Counter((f["outcome"], f["why"]) for f in faults if f["outcome"] != "trained")
    lines = []
    for (outcome, why), number in sorted(count.items()):
        lines += textwrap.wrap(f"{outcome}: {why}", 96, initial_indent=f"{number:>4}  ", subsequent_indent="      ")
    return lines


def summary(record):
    faults = record["faults"]
    trained = [fault for fault in faults if fault["outcome"] == "trained"]
    lines = [f"{len(faults)} faults, of which {len(trained)} were trained", *reasons(faults), "",
             f"{'of those trained':<28} {'sees':>5} {'of':>4}  and of these the check below it misses"]
    for check, below in zip(NAMES, [*EVERYDAY[1:], "phases", None]):
        looked = [fault for fault in trained if seen(fault, check) is not None]
        sees = [fault for fault in looked if seen(fault, check)]
        missed = "" if below is None else sum(seen(fault, below) is False for fault in sees)
        lines.append(f"{NAMES[check]:<28} {len(sees):>5} {len(looked):>4}  {missed}".rstrip())
    looked = [fault["loss"] for fault in trained if fault["loss"]]
    beyond = {limit: sum(one["spreads"] is None or one["spreads"] > limit for one in looked) for limit in (0.5, 2)}
    exact = sum(fault["phases"]["exact"] for fault in faults)
    lines += ["", f"the loss curve, were half a spread or two the limit: {beyond[0.5]} and {beyond[2]}", "",
              f"all {len(faults)}, by phases: {sum(seen(f, 'phases') for f in faults)} seen, {exact} at their place"]
    for title, chosen in (
            ("seen by the loss curve, and by no other everyday check",
             lambda f: seen(f, "loss") and not any(seen(f, check) for check in EVERYDAY[1:])),
            ("seen by the hash of the state alone",
             lambda f: seen(f, "hash") and not any(seen(f, check) for check in EVERYDAY[:-1])),
            ("trained, and seen by no everyday check", lambda f: not any(seen(f, check) for check in EVERYDAY))):
        names = [fault["fault"] for fault in trained if chosen(fault)]
        lines += ["", f"{title}: {len(names)}", *indented(names)]
    return lines


def each(record):
    columns = ("loss", "sum", "1e-3", "1e-5", "bits", "hash", "phases")
    lines = [f"{'fault':<36}" + "".join(f"{column:>6}" for column in columns[:-1]) + "  phases"]
    for fault in record["faults"]:
        marks = {True: "x", False: ".", None: ""}
        line = f"{fault['fault']:<36}"
        if fault["outcome"] == "trained":
            line += "".join(f"{marks[seen(fault, check)]:>6}" for check in EVERYDAY)
        else:
            line += f"{fault['outcome']:>36}"
        place = fault["phases"]["place"] if seen(fault, "phases") else "MISSED"
        lines.append(f"{line}  {place}")
    return lines


def main(arguments):
    words = {(): lambda: summary(load(RECORD)), ("--faults",): lambda: each(load(RECORD))}
    if tuple(arguments) in words:
        print("\n".join(words[tuple(arguments)]()))
        return 0
    print(__doc__.strip(), file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
