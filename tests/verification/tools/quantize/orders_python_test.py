#!/usr/bin/env python3
"""orders_python_test.py ZEROPROOF: random files of rules, against both orders written out here over PyYAML and fnmatch.

Files that the program refuses (a rule that is shadowed, a pattern that matches nothing) are counted: the
reason must be true here as well."""

import copy
import fnmatch
import json
import os
import random
import subprocess
import sys
import tempfile

try:
    import yaml
except ImportError:
    print("skipped: PyYAML is not here (Debian: python3-yaml)")
    sys.exit(77)

FILES = 60
PAYLOADS = [
    {"format": "bf16"},
    {"format": "e4m3", "recipe": "delayed", "history": 4},
    {"format": "e5m2", "recipe": "current", "epsilon": 0.25},
    {"format": "int8", "calibration": {"method": "percentile", "percentile": 99.5}},
    {"format": "e4m3", "recipe": "blockwise", "block": "1x128"},
]
PATTERNS = ["*", "*mlp*", "*.up*", "*layers.1*", "*layers.1.*", "*attention.[qk]*", "*layers.[!0-3].*", "embed*", "*down*",
            "*.?p*", "*layers.1?.*", "*nothing*"]


def model(folder):
    names = ["embed.weight"]
    text = '[[tensor]]\nname = "embed.weight"\nshape = [4]\n'
    parts = ["attention.query.weight", "attention.key.weight", "mlp.up.weight", "mlp.up.bias", "mlp.down.weight"]
    for part in parts:
        text += f'[[tensor]]\nname = "layers.{{i}}.{part}"\nshape = [4]\nrepeat = 12\n'
    names += [f"layers.{i}.{part}" for i in range(12) for part in parts]
    path = os.path.join(folder, "model.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path, names


def megatron(draw):
    configs = {f"c{i}": copy.deepcopy(payload) for i, payload in enumerate(PAYLOADS)}
    matchers = {}
    for i in range(draw.randrange(1, 6)):
        matcher = {"type": "glob", "pattern": draw.choice(PATTERNS), "config": draw.choice(list(configs))}
        enabled = draw.choice([True, True, True, True, False, None])
        if enabled is not None:
            matcher["enabled"] = enabled
        matchers[f"m{i}"] = matcher
    return {"configs": configs, "matchers": matchers}


def modelopt(draw):
    entries = [{"quantizer_path": "*", "enable": False}]
    for _ in range(draw.randrange(1, 6)):
        entry = {"quantizer_path": draw.choice(PATTERNS)}
        kind = draw.randrange(4)
        if kind > 0:
            entry["cfg"] = copy.deepcopy(draw.choice(PAYLOADS))
        if kind == 0 or draw.random() < 0.2:
            entry["enable"] = draw.random() < 0.5
        entries.append(entry)
    return {"quant_cfg": entries}


def first_wins(rules, name):
    """Payload or None, and the rules that decide, counted from 1."""
    path = name.rpartition(".")[0] or name
    for i, matcher in enumerate(rules["matchers"].values()):
        if matcher.get("enabled", False) and fnmatch.fnmatchcase(path, matcher["pattern"]):
            return copy.deepcopy(rules["configs"][matcher["config"]]), {i + 1}
    return None, set()


def last_wins(rules, name):
    path, payload, on, of_payload, of_flag = name + "_quantizer", None, False, None, None
    for i, entry in enumerate(rules["quant_cfg"]):
        if not fnmatch.fnmatchcase(path, entry["quantizer_path"]):
            continue
        if "cfg" in entry:
            payload, of_payload = copy.deepcopy(entry["cfg"]), i + 1
        on, of_flag = entry.get("enable", True), i + 1
    if on and payload is None:
        return "no payload", {of_flag}
    decide = {of_flag} | ({of_payload} if on else set())
    return (payload if on else None), decide - {None}


def contains(full, given):
    """Every field that was given is in the payload with all of them."""
    return all(contains(full[key], value) if isinstance(value, dict) else full[key] == value
               for key, value in given.items())


def main():
    draw = random.Random(4)
    counts = {"taken": 0, "unmatched": 0, "shadowed": 0, "no cfg": 0}
    with tempfile.TemporaryDirectory() as folder:
        path, names = model(folder)
        for number in range(FILES):
            form = draw.choice([megatron, modelopt])
            rules = form(draw)
            file, out = os.path.join(folder, "q.yaml"), os.path.join(folder, "q.json")
            with open(file, "w", encoding="utf-8") as stream:
                yaml.safe_dump(rules, stream, sort_keys=False, default_flow_style=draw.choice([True, False, None]))
            with open(file, encoding="utf-8") as stream:
                read = yaml.safe_load(stream)
            assert read == rules
            decide = first_wins if form is megatron else last_wins
            wanted = {name: decide(read, name) for name in names}
            said = subprocess.run([sys.argv[1], "quantization", file, "--model", path, "--json", out],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
            listed = list(read["matchers"].values()) if form is megatron else read["quant_cfg"]
            taking_part = [i + 1 for i, rule in enumerate(listed) if form is modelopt or rule.get("enabled", False)]
            idle = [rule for rule in taking_part if all(rule not in who for _, who in wanted.values())]
            bare = any(payload == "no payload" for payload, _ in wanted.values())
            context = f"file {number}: {read}\n{said.stderr}"
            if said.returncode == 0:
                assert not idle and not bare, context
                with open(out, encoding="utf-8") as stream:
                    tensors = {tensor["tensor"]: tensor for tensor in json.load(stream)["tensors"]}
                assert set(tensors) == set(names), context
                for name, (payload, who) in wanted.items():
                    ours = tensors[name]
                    assert (ours["payload"] is None) == (payload is None), context + name
                    assert payload is None or contains(ours["payload"], payload), context + name
                    mine = {ours["flag_rule"]} | ({ours["payload_rule"]} if ours["on"] else set())
                    assert mine - {None} == who, context + name
                counts["taken"] += 1
                continue
            assert said.returncode == 2 and said.stderr.count("\n") == 1, context
            kind = "unmatched" if "matches none" in said.stderr else "shadowed" if "shadowed" in said.stderr else "no cfg"
            assert idle if kind != "no cfg" else bare, context
            counts[kind] += 1
    print(f"{FILES} files: {counts}")
    assert counts["taken"] >= FILES // 5 and counts["unmatched"] and counts["shadowed"], counts
    return 0


if __name__ == "__main__":
    sys.exit(main())
