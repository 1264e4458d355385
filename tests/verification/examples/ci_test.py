#!/usr/bin/env python3
"""ci_test.py ZEROPROOF ROOT FOLDER: runs the workflow of verification/examples/ci as a CI system would.

Steps that use an action get a stand-in: a repository with the plug-in of the examples and golden numbers, and a
zeroproof that is built already; apt-get and cmake are programs that record their arguments. Every other line is
executed. Once the kernel is right, and once it is wrong.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

PROGRAM, ROOT, FOLDER = (pathlib.Path(part).resolve() for part in sys.argv[1:4])
WORKFLOW = ROOT / "verification/examples/ci/zeroproof.yml"
SHELL = ["sh", "-e", "-c"]  # the default of a container step without `shell:`


def require(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def steps_of(text):
    """The steps as dictionaries of their scalars; a subset of YAML for this file, compared with a real parser below."""
    steps, block, where = [], None, None
    for line in text[text.index("    steps:\n"):].splitlines()[1:]:
        if block is not None and (line.startswith(" " * 10) or not line):
            steps[-1][block] += line[10:] + "\n"
            continue
        block = None
        start = re.match(r"      - (\w[\w-]*): ?(.*)", line) or re.match(r"        (\w[\w-]*): ?(.*)", line)
        if start:
            if line.startswith("      - "):
                steps.append({})
            key, value = start.group(1), re.sub(r" +# .*", "", start.group(2))
            where = key
            block = key if value == "|" else None
            steps[-1][key] = "" if value in ("|", "") else value
        else:
            inner = re.match(r"          ([\w-]+): (.*)", line)
            require(inner and where == "with", f"a line of the workflow that this test cannot read: {line!r}")
            steps[-1].setdefault("with.", {})[inner.group(1)] = inner.group(2)
    return steps


def same_as_yaml(text, steps):
    try:
        import yaml
    except ImportError:
        print("not looked at with a YAML reader: this python3 has no yaml (python3-yaml)")
        return
    parsed = yaml.safe_load(text)
    require(set(parsed[True]) == {"push", "pull_request"}, "the workflow does not start at push and pull_request")
    (job,) = parsed["jobs"].values()
    require(len(job["steps"]) == len(steps), "this test reads other steps than a YAML reader")
    for ours, theirs in zip(steps, job["steps"]):
        for key in ("name", "run", "uses", "if", "id"):
            require(ours.get(key) == theirs.get(key), f"step {theirs.get('name')}: {key} is read in two ways")
        require({k: str(v) for k, v in theirs.get("with", {}).items()} == ours.get("with.", {}),
                f"step {theirs.get('name')}: with is read in two ways")
    print("ok: a YAML reader sees the same steps")


def stand_in(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


def repository(where, kernel):
    """Files left by the two checkouts and the cache, and programs that must not run here."""
    if where.exists():
        shutil.rmtree(where)
    (where / "kernels").mkdir(parents=True)
    (where / "golden").mkdir()
    (where / "kernels/adamw.cpp").write_text(kernel)
    (where / "zeroproof/build").mkdir(parents=True)
    (where / "zeroproof/verification").symlink_to(ROOT / "verification")
    (where / "zeroproof/build/zeroproof").symlink_to(PROGRAM)
    (where / "bin").mkdir()
    for name in ("apt-get", "cmake"):
        stand_in(where / "bin" / name, f'echo "{name} $*" >>"{where}/calls"\n')
    run = subprocess.run([PROGRAM, "golden", "record", where / "golden/tiny.safetensors", "byte_gpt_tiny", "--recipe",
                          "adamw", "--dtype", "bf16"], capture_output=True, text=True)
    require(run.returncode == 0, f"no golden file: {run.stdout}{run.stderr}")


def follow(where, steps):
    """Runs the steps; returns the exit codes by name. After a failure only steps with always() run."""
    environment = dict(os.environ, PATH=f"{where / 'bin'}:{os.environ['PATH']}", CI="true")
    codes, failed = {}, False
    for step in steps:
        if "run" not in step or (failed and "always()" not in step.get("if", "")):
            continue
        run = subprocess.run([*SHELL, step["run"]], cwd=where, env=environment, capture_output=True, text=True)
        codes[step["name"]] = run.returncode
        failed = failed or run.returncode != 0
        print(f"  {step['name']}: {run.returncode}")
        if run.returncode not in (0, 1):
            print(run.stdout, run.stderr)
    return codes


def main():
    text = WORKFLOW.read_text()
    steps = steps_of(text)
    same_as_yaml(text, steps)
    kernel = (ROOT / "verification/examples/plugin_cpp/adamw.cpp").read_text()

    where = FOLDER / "right"
    repository(where, kernel)
    codes = follow(where, steps)
    require(set(codes.values()) == {0} and len(codes) == 6, f"a right kernel does not pass: {codes}")
    calls = (where / "calls").read_text()
    packages = set(re.search(r"install .*", calls).group().split())
    rows = [line.split() for line in (ROOT / "common/packages.txt").read_text().splitlines() if line[0] != "#"]
    needed = {row[0] for row in rows if row[1] == "build"}
    require(needed <= packages, f"the workflow does not install {needed - packages}")
    options = set(re.findall(r"-D(\w+)=", calls))
    known = "".join((ROOT / name).read_text() for name in ("CMakeLists.txt", "common/cmake/Capabilities.cmake"))
    require(options and all(option in known for option in options), f"cmake has no option of {options}")
    (path,) = {step["with."]["path"] for step in steps if "upload-artifact" in step.get("uses", "")}
    files = {file.name for file in (where / path).glob("*")}
    require({"kernel.html", "kernel.xml", "step.html", "step.xml"} <= files, f"reports are missing: {files}")
    (cached,) = {step["with."]["path"] for step in steps if "actions/cache" in step.get("uses", "")}
    require((where / cached).exists(), f"{cached} is not what a build makes")
    print("ok: a right kernel passes")

    where = FOLDER / "wrong"
    repository(where, "#define EPS_INSIDE\n" + kernel)
    golden = where / "golden/tiny.safetensors"
    raw = bytearray(golden.read_bytes())
    raw[-1] ^= 1
    golden.write_bytes(raw)
    codes = follow(where, steps)
    require(codes.get("Judge the kernel") == 1, f"a wrong kernel passes: {codes}")
    require(codes.get("Judge it in a training step") == 1, f"a wrong kernel passes in a step: {codes}")
    require(codes.get("Golden numbers") == 2, f"a changed golden file is judged: {codes}")
    for name in ("kernel.xml", "step.xml"):
        report = xml.etree.ElementTree.parse(where / path / name).getroot()
        require(next(report.iter("failure"), None) is not None, f"{name} has no failure")
    require(any((where / path / "failing").glob("*")), "no failing call is kept")
    print("ok: a wrong kernel fails, and its reports are there")


main()
