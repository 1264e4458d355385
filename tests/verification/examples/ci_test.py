#!/usr/bin/env python3
"""ci_test.py ZEROPROOF ROOT FOLDER: runs the action and the workflows of verification/examples/ci as a CI system would.

The checkout is a stand-in: a repository with the plug-in of the examples, and a zeroproof that is on PATH already. Every
other line is executed, with the environment that GitHub gives: for a right kernel, a wrong one, unusable inputs, and
without permission to write the job summary.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

try:
    import yaml
except ImportError:
    print("skipped: this python3 has no yaml (Debian: python3-yaml)")
    sys.exit(77)

PROGRAM, ROOT, FOLDER = (pathlib.Path(part).resolve() for part in sys.argv[1:4])
ACTION = ROOT / "verification/action"
EXAMPLES = ROOT / "verification/examples"
ONE_OPERATION = "op/adamw_update/plugin/mine/fill:training"
GITLAB = yaml.safe_load((EXAMPLES / "ci/gitlab-ci.yml").read_text())["zeroproof"]


def require(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def steps_of(name):
    workflow = yaml.safe_load((EXAMPLES / "ci" / name).read_text())
    require(workflow["permissions"] == {"contents": "read"}, f"{name} asks for permissions: {workflow['permissions']}")
    (job,) = workflow["jobs"].values()
    return job["steps"]


def filled(text, inputs):
    """An expression of the action, with the values of its inputs."""
    return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: inputs[found[1]], text)


def action_environment(given):
    """The variables that the action gives its script. None of its commands may have an input in its text."""
    action = yaml.safe_load((ACTION / "action.yml").read_text())
    require(set(given) <= set(action["inputs"]), f"the action has no input of {sorted(given)}")
    inputs = {name: str(words["default"]) for name, words in action["inputs"].items()} | given
    judge, upload = action["runs"]["steps"]
    require(judge["run"] == 'sh "$GITHUB_ACTION_PATH/judge.sh"' and judge["shell"] == "sh", "the script is another")
    require(upload["if"] == "always()" and filled(upload["with"]["path"], inputs) == inputs["reports"],
            "reports are not uploaded")
    pinned = [step["uses"] for step in [upload, *steps_of("zeroproof.yml"), *steps_of("pytest.yml")] if "uses" in step]
    require(all(re.search("@([0-9a-f]{40}|COMMIT)$", one) for one in pinned), f"not pinned by a SHA: {pinned}")
    variables = {name: filled(value, inputs) for name, value in judge["env"].items()}
    require(set(variables) == {"INPUT_" + name.upper().replace("-", "_") for name in inputs},
            "not every input reaches the script")
    return variables


def repository(name, kernel):
    """A repository of a user, and a zeroproof that is installed."""
    where = FOLDER / name
    if where.exists():
        shutil.rmtree(where)
    (where / "kernels").mkdir(parents=True)
    (where / "golden").mkdir()
    (where / "bin").mkdir()
    (where / "kernels/adamw.cpp").write_text(kernel)
    (where / "bin/zeroproof").symlink_to(PROGRAM)
    return where


def judge(where, variables, github=True, **more):
    """Runs the script: its exit code, what it printed, and the job summary."""
    summary = where / "summary.md"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "INPUT_"))}
    environment |= {"PATH": f"{where / 'bin'}:{os.environ['PATH']}", "CI": "true"} | variables
    if github:
        environment |= {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary), "GITHUB_WORKSPACE": str(where),
                        "GITHUB_ACTION_PATH": str(ACTION), "RUNNER_TEMP": str(where)}
    run = subprocess.run(["sh", str(ACTION / "judge.sh")], cwd=where, env=environment | more, capture_output=True, text=True)
    print(f"  exit code {run.returncode}")
    return run.returncode, run.stdout, run.stderr, summary.read_text() if summary.exists() else ""


def annotations(out):
    return [line for line in out.splitlines() if line.startswith("::error")]


def record(where, kernel, *flags):
    (where / "k.cpp").write_text(kernel)
    subprocess.run(["c++", "-std=c++20", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-I",
                    ROOT / "verification/interfaces/capi", "k.cpp", "-o", "libk.so"], cwd=where, check=True)
    subprocess.run([PROGRAM, "golden", "record", "golden/adamw.safetensors", "op/adamw_update", "--numel", "1003",
                    "--plugin", "./libk.so"], cwd=where, check=True, capture_output=True, env={"PATH": os.environ["PATH"]})


def right_and_wrong():
    (step,) = [step for step in steps_of("zeroproof.yml") if "/verification/action@" in step["uses"]]
    given = {**step["with"], "wheel": "installed"}
    kernel = (EXAMPLES / "plugin_cpp/adamw.cpp").read_text()
    where = repository("right", kernel)
    record(where, kernel)
    code, out, err, summary = judge(where, action_environment(given))
    require(code == 0 and not annotations(out), f"a right kernel does not pass: {out}{err}")
    require(out.count("+ zeroproof ") == 3 and out.count("--plugin ./libmine.so") == 3,
            f"the kernel is not judged by every command: {out}")
    require(summary.count("###") == 3 and "golden/adamw.safetensors" in summary, f"the summary is short: {summary}")
    files = {file.name for file in (where / "zeroproof-reports").glob("*")}
    require({"1.html", "1.xml", "2.html", "2.xml"} <= files, f"reports are missing: {files}")
    print("ok: a right kernel passes")

    where = repository("wrong", "#define EPS_INSIDE\n" + kernel)
    record(where, kernel)
    code, out, err, summary = judge(where, action_environment(given))
    print("\n".join(annotations(out)))
    require(code == 1, f"a wrong kernel gives exit code {code}: {out}{err}")
    found = annotations(out)
    require(len(found) == 3, f"annotations of three commands are wanted: {found}")
    require(all(one.startswith("::error file=kernels/adamw.cpp,title=") for one in found), f"not at the source: {found}")
    require("first at  master[" in found[0] and "title=golden%3A wrong" in found[2], f"not the first element: {found}")
    require(summary.count("| fail |") >= 2 and "| wrong |" in summary, f"the summary has no failure: {summary}")
    report = xml.etree.ElementTree.parse(where / "zeroproof-reports/1.xml").getroot()
    require(next(report.iter("failure"), None) is not None, "1.xml has no failure")
    require(any((where / "zeroproof-reports/failing-1").glob("*")), "no failing call is kept")
    print("ok: a wrong kernel fails, with annotations")


def own_bits():
    """A kernel in another order has its own golden numbers; a change of its order is seen."""
    kernel = (EXAMPLES / "plugin_cpp/another_order.cpp").read_text()
    given = {"wheel": "installed", "build": steps_of("zeroproof.yml")[1]["with"]["build"], "plugin": "./libmine.so",
             "accept": "any-order", "cases": "op/adamw_update/plugin/theirs/fill:training", "golden": "golden"}
    where = repository("another", kernel)
    record(where, kernel)
    code, out, err, _ = judge(where, action_environment(given))
    require(code == 0 and "\nequal\n" in out, f"a kernel in another order does not pass: {out}{err}")
    record_other = repository("moved", kernel)
    record(record_other, (EXAMPLES / "plugin_cpp/adamw.cpp").read_text())
    code, out, err, _ = judge(record_other, action_environment(given))
    require(code == 0 and "the change is legal" in out and "::warning " in out, f"a legal change is red: {out}{err}")
    code, out, err, _ = judge(record_other, action_environment({**given, "strict-bits": "true"}))
    require(code == 1 and "golden update golden/adamw.safetensors --plugin" in out, f"a moved bit is green: {out}{err}")
    print("ok: the bits of a kernel in another order are kept")


def unusable():
    where = repository("unusable", "")
    plugin = {"plugin": "./libmine.so", "wheel": "installed"}
    (where / "empty").mkdir()
    for given, says in (
            ({}, "there is nothing to judge"),
            ({**plugin, "golden": "none"}, "'none' is neither a file nor a folder"),
            ({**plugin, "golden": "empty"}, "has no *.safetensors"),
            ({"callable": "k.py:adamw", "golden": "empty"}, "golden was given without plugin"),
            ({**plugin, "strict": "yes"}, "strict is 'yes'"),
            ({**plugin, "source": "none.cpp"}, "source 'none.cpp' is no file"),
            ({**plugin, "version": "1"}, "both wheel and version"),
            ({**plugin, "build": "exit 3"}, "the build command ended with an error"),
            ({"callable": "k.py:adamw", "wheel": "installed"}, "cannot import zproof (the input callable needs it)"),
            ({**plugin, "reports": "kernels/adamw.cpp/x"}, "the folder 'kernels/adamw.cpp/x' of the reports cannot be made"),
            (plugin, "plugin './libmine.so' is no file")):
        for github in (True, False):
            code, out, err, _ = judge(where, action_environment(given), github)
            said = annotations(out) if github else err.splitlines()
            require(code == 2 and len(said) == 1 and says in said[0], f"{given}: exit {code}, {out}{err}")
    code, out, _, _ = judge(where, action_environment({"plugin": "kernels/adamw.cpp", "wheel": "installed"}))
    require(code == 2 and len(annotations(out)) == 1 and "cannot be loaded" in out, f"no library: exit {code}, {out}")
    code, out, _, _ = judge(where, action_environment(plugin), RUNNER_TEMP="/nowhere")
    require(code == 2 and len(annotations(out)) == 1 and "can be made in '/nowhere'" in out, f"no /tmp: exit {code}, {out}")
    print("ok: unusable inputs are one sentence")


def offline():
    """Without an input the action's own source is installed; without a package index that is one sentence."""
    where = repository("offline", "")
    code, out, err, _ = judge(where, action_environment({"plugin": "./libmine.so"}), PIP_NO_INDEX="1", PIP_CONFIG_FILE="/dev/null")
    said = annotations(out)
    source = re.search("cannot be installed from '(.*?)'", "".join(said))
    require(code == 2 and len(said) == 1 and source, f"exit {code}: {out}{err}")
    require(pathlib.Path(source[1], "pyproject.toml").is_file(), f"no Python package is in {source[1]}")
    print("ok: without a package index")


def without_permissions():
    """A fork's token writes nothing; and the verdict does not depend on the summary."""
    kernel = (EXAMPLES / "plugin_cpp/adamw.cpp").read_text()
    where = repository("fork", kernel)
    given = {"wheel": "installed", "build": steps_of("zeroproof.yml")[1]["with"]["build"], "plugin": "./libmine.so",
             "cases": ONE_OPERATION}
    code, out, err, _ = judge(where, action_environment(given), GITHUB_STEP_SUMMARY="/dev/null/summary")
    said = [line for line in err.splitlines() if "summary" in line]
    require(code == 0 and len(said) == 1 and "cannot be written" in said[0], f"exit {code}: {out}{err}")
    print("ok: without a job summary the verdict is the same")


def gitlab():
    where = repository("gitlab", "#define EPS_INSIDE\n" + (EXAMPLES / "plugin_cpp/adamw.cpp").read_text())
    require(GITLAB["script"] == ["sh zeroproof/verification/action/judge.sh"], "GitLab runs another script")
    variables = {name: value.replace("$$", "$") for name, value in GITLAB["variables"].items() if name != "INPUT_GOLDEN"}
    variables |= {"INPUT_WHEEL": "installed", "INPUT_CASES": ONE_OPERATION}
    code, out, err, _ = judge(where, variables, github=False)
    require(code == 1 and "FAIL op/adamw_update" in out and "::error" not in out, f"exit {code}: {out}{err}")
    found = list(where.glob(GITLAB["artifacts"]["reports"]["junit"]))
    require(len(found) == 1, f"JUnit is not where GitLab reads it: {found}")
    print("ok: GitLab gets the same verdict")


right_and_wrong()
own_bits()
unusable()
offline()
without_permissions()
gitlab()
