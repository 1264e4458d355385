"""The passages of common/CONTRACT.md that a puzzle is about."""

import pathlib

CONTRACT = pathlib.Path(__file__).resolve().parents[3] / "common" / "CONTRACT.md"

#: puzzle: rule, the words with which its passage begins, and the passage's number of paragraphs
PASSAGES = {
    "add_tree": [("R11", "Node `(l, k)` covers", 1)],
    "maximal_nodes": [("R11", "A holder may combine", 1)],
    "adamw": [("R6", "adamw and adam:", 2)],
    "loss_scaler": [("R14", "It changes once in a step", 3)],
    "unscale": [("R6", "| unscale |", 1), ("R14", "found_inf is an OR", 1)],
    "clip": [("R12", "Form `exact`", 1), ("R12", "Clip: if `max_norm`", 1)],
    "shard_map": [("R13", "Tensors are numbered", 1)],
    "reduce": [("R11", "A holder may combine", 1)],
    "schedule": [],
    "groups": [("R11", "*Context parallelism.*", 2), ("R12", "At most 2^32 - 1", 1)],
    "reshard": [("R13", "Tensors are numbered", 1)],
    "repair": [],
    "muon": [("R28", "**Momentum**", 2), ("R28", "Which rank", 1)],
    "grad_sum": [("R11", "Node `(l, k)` covers", 1)],
    "adamw_update": [("R6", "adamw and adam:", 2)],
    "cast_to_bf16": [("R8", "fp32 to bf16 or fp16", 1)],
    "loss_scaler_update": [("R14", "It changes once in a step", 3)],
    "clip_coef": [("R12", "Clip: if `max_norm`", 1)],
    "grad_norm_exact_accumulate": [("R12", "NaN adds 1 to nan_count", 1), ("R12", "Form `exact`", 1)],
}


def passage(rule, begin, count):
    """The heading of a rule, and `count` paragraphs from the line that starts with `begin`."""
    chapters = CONTRACT.read_text(encoding="utf-8").split("\n## ")
    heading, _, text = next(one for one in chapters if one.startswith(rule + " ")).partition("\n")
    lines = text.splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith(begin))
    if begin.startswith("|"):  # a row of a table
        return heading, lines[first].strip("| ").replace(" | ", ": ", 1)
    paragraphs = "\n".join(lines[first:]).split("\n\n")
    return heading, "\n\n".join(paragraphs[:count])


def rules_of(name):
    """The passages of a puzzle as text, empty if no rule is its subject."""
    shown, before = [], None
    for rule, begin, count in PASSAGES[name]:
        heading, text = passage(rule, begin, count)
        shown.append(text if heading == before else f"{heading}\n\n{text}")
        before = heading
    return "\n\n".join(shown) + "\n\nfrom common/CONTRACT.md" if shown else ""
