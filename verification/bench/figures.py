#!/usr/bin/env python3
"""figures.py FOLDER     the figures of the benchmark records in a folder, as the documents quote them.

FOLDER/*product*.json.gz are records of zeroproof-bench, FOLDER/*ranks*.json.gz of zeroproof-bench-ranks. Ratios are taken
within rounds: median [least-most]. Nothing is measured here.
"""

import gzip
import json
import pathlib
import statistics
import sys


def load(path):
    try:
        return json.loads(gzip.decompress(path.read_bytes()))
    except (OSError, ValueError) as error:
        sys.exit(f"figures.py: {path} is no gzipped JSON record ({error}); make it with --json and gzip")


def spread(values):
    return f"{statistics.median(values):5.2f} [{min(values):.2f}-{max(values):.2f}]"


def product(record):
    machine = record["machine"]
    lines = [f"{machine['cpu']}, {record['threads']} threads; one rank, {record['product'][0]['numel']:,} parameters"]
    lines.append(f"  {'M':>2} {'tensors':>7} grads {'step, ms':>8}  {'/ its twins':<20}{'/ its bytes':<20}page faults")
    for row in record["product"]:
        lines.append(
            f"  {row['micro_batches']:>2} {row['tensors']:>7} {row['grad_dtype']:<5} {1e3 * row['best_s']:8.1f}  "
            f"{spread(row['step_to_twins']['per_round']):<20}{spread(row['step_to_limit']['per_round']):<20}"
            f"{statistics.median(row['page_faults']):.0f}")
    return lines


def ranks(record):
    rows = {row["name"]: row["samples_s"] for row in record["rows"]}
    malloc = "malloc warm" if record["malloc"]["warm"] else "malloc as installed"
    lines = [f"{record['ranks']} ranks, {record['numel']:,} parameters, {malloc}: library scatter + gather / step"]
    library = rows["library scatter + gather"]
    for name, samples in rows.items():
        if name.startswith("product") and "M = " not in name:
            ratios = [theirs / ours for theirs, ours in zip(library, samples)]
            lines.append(f"  {name:<32}{1e3 * min(samples):8.1f} ms  {spread(ratios)}")
    return lines


def main():
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if len(sys.argv) == 2 else 2
    folder = pathlib.Path(sys.argv[1])
    records = sorted(folder.glob("*product*.json.gz")), sorted(folder.glob("*ranks*.json.gz"))
    if not any(records):
        sys.exit(f"figures.py: {folder} has no records (there is nothing to show); give a folder of verification/records")
    for paths, show in zip(records, (product, ranks)):
        for path in paths:
            print("\n".join(show(load(path))), end="\n\n" if path != (records[1] or records[0])[-1] else "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
