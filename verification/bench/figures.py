#!/usr/bin/env python3
"""figures.py FOLDER     the figures of the benchmark records in a folder, as the documents quote them.

FOLDER/*product*.json.gz, *sweep* and *ranks* are records of the subcommands of zeroproof-bench of these names, *peers*
of peers.py. Ratios are taken within rounds: median [least-most]. Nothing is measured here.
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
    lines.append(f"  {'M':>2} {'tensors':>7} grads {'step, ms':>8}  {'/ its kernels':<20}{'/ its bytes':<20}page faults")
    for row in record["product"]:
        # schema 1 and 2 call it step_to_twins
        kernels = row.get("step_to_implementations") or row["step_to_twins"]
        lines.append(
            f"  {row['micro_batches']:>2} {row['tensors']:>7} {row['grad_dtype']:<5} {1e3 * row['best_s']:8.1f}  "
            f"{spread(kernels['per_round']):<20}{spread(row['step_to_limit']['per_round']):<20}"
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


def sweep(record):
    lines = ["straight lines through steps"]
    for axis in record["sweep"]:
        points = [point["x"] for point in axis["points"]]
        lines.append(f"  {axis['axis']:<14}{min(points):>10,.0f} to {max(points):>11,.0f}   "
                     f"worst residual {100 * axis['worst_residual']:4.1f} %")
    return lines


def peers(record):
    lines = []
    for group in record["groups"]:
        rows = {name: [statistics.median(one) for one in samples] for name, samples in group["rows"].items()}
        local = "ours" in rows
        lines.append(f"{group['title']}: time / ours" + ("" if local else ", one copy"))
        for name, samples in rows.items():
            if name.startswith("ours"):
                continue
            pages = ", 2 MiB pages" if local and "2 MiB" in name else ""
            ours = rows["ours" + pages if local else "ours: product, one copy"]
            found = spread([theirs / own for theirs, own in zip(samples, ours)])
            lines.append(f"  {name:<46}{1e3 * min(map(min, group['rows'][name])):8.1f} ms  {found}")
    return lines


KINDS = {"product": product, "sweep": sweep, "ranks": ranks, "peers": peers}


def main():
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if len(sys.argv) == 2 else 2
    folder = pathlib.Path(sys.argv[1])
    blocks = [show(load(path)) for kind, show in KINDS.items() for path in sorted(folder.glob(f"*{kind}*.json.gz"))]
    if not blocks:
        sys.exit(f"figures.py: {folder} has no records (there is nothing to show); give a folder of verification/bench/records")
    print("\n\n".join("\n".join(block) for block in blocks))
    return 0


if __name__ == "__main__":
    sys.exit(main())
