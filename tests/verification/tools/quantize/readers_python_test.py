#!/usr/bin/env python3
"""readers_python_test.py TOOL EXAMPLES: files with small changes, before the program and before PyYAML.

Every file that the program accepts is accepted by PyYAML, with which both other systems read such files, with the same
rules. (The reverse is not so: the program is stricter.)"""

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

FILES = 4000
PIECES = [" ", "  ", "\n", "\n  ", ":", ": ", "-", "- ", "?", "? ", ",", "{", "}", "[", "]", "&a ", "*a", "!", "!!str ", "|", ">",
          "'", '"', "#", " #", "%", "@", "`", "~", "<<", "true", "True", "no", "0x10", "1e3", "1_0", "010", "0.5", ".5", "1.",
          "+1", "-0", "null", "---\n", "...\n", "\\", "\r\n", "é", "a", "1", "=", "\t", "0", "|-\n", '"\\x41"']


def changed(draw, text):
    for _ in range(draw.randrange(1, 4)):
        at = draw.randrange(len(text) + 1)
        kind = draw.randrange(4)
        if kind == 0:
            text = text[:at] + text[at + draw.randrange(1, 4):]
        elif kind == 1:
            text = text[:at] + draw.choice(PIECES) + text[at + 1:]
        else:
            text = text[:at] + draw.choice(PIECES) + text[at:]
    return text


def plain(text):
    """Where a change shows: no remarks, and flow style as well as blocks."""
    return "".join(line.split("  #")[0].rstrip() + "\n" for line in text.splitlines() if not line.startswith("#"))


def rules_of(read):
    """(pattern, enable, the payload's given fields) of every rule."""
    if "quant_cfg" in read:
        return [(entry["quantizer_path"], entry.get("enable", True), entry.get("cfg")) for entry in read["quant_cfg"]]
    return [(matcher["pattern"], matcher.get("enabled"), read["configs"][matcher["config"]])
            for matcher in read["matchers"].values()]


def contains(full, given):
    if given is None or full is None:
        return given is full
    return all(contains(full[key], value) if isinstance(value, dict) else full[key] == value and
               isinstance(full[key], bool) == isinstance(value, bool) for key, value in given.items())


def wrong_about(text, line):
    """The difference between the two, or nothing."""
    try:
        read = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        return f"PyYAML refuses it: {str(error).splitlines()[0]}"
    theirs, ours = rules_of(read), line["rules"]
    if len(theirs) != len(ours):
        return f"{len(ours)} rules, PyYAML has {len(theirs)}"
    for (pattern, enable, payload), rule in zip(theirs, ours):
        if rule["pattern"] != pattern or rule["enable"] != enable or not contains(rule["payload"], payload):
            return f"{rule}, PyYAML has {(pattern, enable, payload)}"
    return ""


def main():
    draw = random.Random(11)
    texts = []
    for name in ("fp8_layers.yaml", "int8_weights.yaml"):
        with open(os.path.join(sys.argv[2], name), encoding="utf-8") as file:
            texts.append(plain(file.read()))
    texts += [yaml.safe_dump(yaml.safe_load(text), sort_keys=False, default_flow_style=True) for text in texts]
    texts.append("x".join(["configs: {a: &p {format: e4m3, recipe: current, epsilon: 0.5}, b: *p, \"c d\": *p}\nmatchers:\n",
                           "1: {type: glob, pattern: '*[!a]', config: a, enabled: true}\n"]).replace("\nx1", "\n  x1"))
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for i in range(FILES):
            files.append(os.path.join(folder, f"{i}.yaml"))
            with open(files[-1], "w", encoding="utf-8", newline="") as file:
                file.write(changed(draw, draw.choice(texts)))
        said = subprocess.run([sys.argv[1], *files], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
        assert len(said) == FILES, f"{len(said)} answers to {FILES} files"
        taken, wrong = 0, 0
        for file, line in zip(files, map(json.loads, said)):
            if "refused" in line:
                continue
            taken += 1
            with open(file, encoding="utf-8", newline="") as stream:
                text = stream.read()
            problem = wrong_about(text, line)
            if problem:
                wrong += 1
                if wrong <= 8:
                    print(f"--- {problem}\n{text}")
    print(f"{FILES} files, {taken} taken, {wrong} read otherwise by PyYAML")
    assert taken > FILES // 20, "too few files are taken to say much"
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
