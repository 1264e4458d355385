#!/usr/bin/env python3
"""JSON of verify, plan and attribute against their schemas, and of evidence.

Needs jsonschema (Debian: python3-jsonschema), else exits with 77.
Arguments: the source folder, zeroproof, zeroproof-faults.
"""
import copy
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    from jsonschema import Draft202012Validator
except ImportError:
    print("skipped: Python has no jsonschema (Debian: python3-jsonschema)")
    sys.exit(77)

source = pathlib.Path(sys.argv[1])
zeroproof, zeroproof_faults = sys.argv[2:4]
folder = tempfile.TemporaryDirectory()
failures = []


def check(condition, text):
    if not condition:
        failures.append(text)
        print("FAIL:", text)


def schema_of(path):
    schema = json.loads((source / path).read_text())
    Draft202012Validator.check_schema(schema)
    return schema


def written(*words):
    """The file that a command writes; its name is appended as the last word."""
    file = pathlib.Path(folder.name) / "out.json"
    file.unlink(missing_ok=True)
    run = subprocess.run([*words[:-1], words[-1].format(file)], capture_output=True, text=True)
    check(file.exists(), f"{' '.join(words)}: {run.stderr}")
    return json.loads(file.read_text())


def valid(validator, document, what):
    for error in itertools.islice(validator.iter_errors(document), 3):
        check(False, f"{what}: {error.json_path}: {error.message[:200]}")


def objects(value, at=()):
    """The path of every object, with the first item of each list."""
    if isinstance(value, dict):
        yield at
        for name, member in value.items():
            yield from objects(member, (*at, name))
    if isinstance(value, list) and value:
        yield from objects(value[0], (*at, 0))


def shortened(value):
    if isinstance(value, dict):
        return {name: shortened(member) for name, member in value.items()}
    return [shortened(value[0])] if isinstance(value, list) and value else value


def strict(validator, document, optional, free=()):
    """Rejects each object with an extra member, without one, and with one of another type."""
    document = shortened(document)
    valid(validator, document, "shortened")
    for at in objects(document):
        def changed(change):
            other = copy.deepcopy(document)
            place = other
            for step in at:
                place = place[step]
            change(place)
            return not validator.is_valid(other)

        where = "/".join(map(str, at))
        if at in free:
            continue
        check(changed(lambda o: o.update(unknown=1)), f"accepted: {where} with another member")
        place = document
        for step in at:
            place = place[step]
        for name, value in place.items():
            wrong = "text" if isinstance(value, list) else []
            check(changed(lambda o: o.update({name: wrong})),
                  f"accepted: {where}/{name} = {wrong!r}")
            if name not in optional:
                check(changed(lambda o: o.pop(name)), f"accepted: {where} without {name}")


def with_value(validator, document, path, value):
    other = copy.deepcopy(document)
    *steps, last = path
    place = other
    for step in steps:
        place = place[step]
    place[last] = value
    check(not validator.is_valid(other), f"accepted: {path} = {value!r}")


def reports():
    validator = Draft202012Validator(schema_of("verification/report/report.schema.json"))
    tiny = "byte_gpt_tiny/{}/host/{}/{}/lockstep/bucket:4096/omp:1"

    # Of processes that judge by themselves; of runs with clip groups. Names depend on the machine.
    optional, free = {"self_test", "clip_groups"}, {("capabilities",)}

    def report(*words, program=zeroproof):
        document = written(program, "verify", *words, "--report", "json:{}")
        valid(validator, document, " ".join(words))
        return document

    failing = report(tiny.format("adamw", "stage1/self", "bf16"), "--steps", "2", "--fault",
                     "decay-after-update", program=zeroproof_faults)
    check(failing["cases"][0]["divergence"] is not None, "the planted fault was not found")
    strict(validator, failing, optional, free)
    strict(validator, report(tiny.format("adamw+clip_groups:two", "stage1/self", "fp16")),
           optional, free)
    strict(validator, report(tiny.format("adamw", "stage1/threads:2", "bf16"), "--steps", "3"),
           optional, free)
    ended = report(tiny.format("adamw+on_nonfinite:error", "stage1/threads:1+2", "bf16"))
    training = ended["cases"][0]["training"]
    check(training["ended_by_overflow"] and training["steps"] == 3, "the end is reported")
    operation = report("op/adamw_update/host/x86-64/fill:training", "--fault",
                       "eps-under-bias-correction", program=zeroproof_faults)
    check(operation["cases"][0]["divergence"]["inputs"], "a failing operation reports its inputs")
    limb = report("byte_gpt_tiny/adamw/host/stage0/threads:3/fp16/lockstep/bucket:4096/omp:2",
                  "--fault", "replicated-counted-per-rank", program=zeroproof_faults)
    check(limb["cases"][0]["divergence"]["word"].startswith("limb "), "a limb is reported")
    worlds = ["threads:3"] + (["mpi:3"] if failing["capabilities"]["mpi"]["available"] else [])
    for world in worlds:
        broken = report(tiny.format("adamw", f"stage1/{world}", "fp16"), "--steps", "1", "--fault",
                        "transport-corrupts-a-line", program=zeroproof_faults)
        message = broken["cases"][0]["divergence"]["message"]
        check([message[key] for key in ("collective", "from", "to", "first", "differing")] ==
              ["all_gather", 0, 2, 0, 128], f"the broken message is reported: {message}")
    strict(validator, broken, optional, free)
    report("lbfgs/rosenbrock/none/self/contract", "controls/swapped-sums")
    with_value(validator, failing, ("schema",), "zeroproof-report/1")
    with_value(validator, failing, ("summary", "pass"), -1)
    with_value(validator, failing, ("summary", "pass"), 1.5)
    with_value(validator, failing, ("contract",), 0)


def evidence():
    validator = Draft202012Validator(schema_of("verification/report/evidence.schema.json"))
    config = pathlib.Path(folder.name) / "settings.toml"
    config.write_text("[optimizer]\nlr = 0.002\n")
    lion = "byte_gpt_tiny/lion/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1"
    document = written(zeroproof_faults, "verify", lion, "--config", str(config), "--seed", "7",
                       "--evidence", "{}")
    check(document["evidence"]["cases"][0]["sensitivity"]["faults"] > 0, "no fault was planted")
    # Names of the environment depend on the machine.
    strict(validator, document, set(), {("evidence", "environment")})
    rank = ("evidence", "cases", 0, "replay", 0)
    with_value(validator, document, (*rank, "class"), "X")
    with_value(validator, document, (*rank, "digests"), ["0" * 32] * 3)
    with_value(validator, document, ("digest",), "0" * 31)
    with_value(validator, document, ("evidence", "denominator", 0, "ranks"), 0)


def plans():
    schema = schema_of("verification/tools/plan/plan.schema.json")
    validator = Draft202012Validator(schema)
    model = pathlib.Path(folder.name) / "cut.toml"
    model.write_text('[[tensor]]\nname = "block{i}.up"\nshape = [64, 640]\ntp = 1\nrepeat = 3\n'
                     '[[tensor]]\nname = "norm"\nshape = [64]\n')
    seen = {}

    def plan(flags):
        document = written(zeroproof, "plan", *flags.split(), "--json", "{}")
        valid(validator, document, flags)
        measured = "measured" in document["stages"][0]
        check(measured == ("--measure" in flags), f"{flags}: measured")
        for stage, rank in itertools.product(document["stages"], ("smallest", "largest")):
            for line in stage[rank]["traffic"]:
                for member, value in line.items():
                    seen.setdefault(member, set()).add(value if isinstance(value, str) else None)
        return document

    for flags in ("byte_gpt_tiny",
                  "byte_gpt_tiny --stage 3 --grid 3x1x1 --dtype fp16 --grad-dtype fp16",
                  "byte_gpt_tiny --grid 4x2x1 --rule sgd --momentum 0.9 --measure"
                  " --count deepspeed,claims",
                  "byte_gpt_tiny --grid 4x1x1 --instances 2 --micro-batches 7 --order strided"
                  " --measure",
                  "byte_gpt --grid 8x1x1 --space device --offload 0.5 --offload-place file",
                  "byte_gpt --grid 8x1x1 --space device --alpha 0.5 --beta 25 --memory 2000",
                  "byte_gpt --grid 64x1x1 --windows on --dtype fp32 --count megatron",
                  f"{model} --grid 2x2x4 --stage 1 --clip-groups 3",
                  f"{model} --grid 16x1x8 --instances 4",
                  f"{model} --grid 2x1x4 --stage 2 --rule muon --matrix-owners balanced",
                  "byte_gpt --grid 2x1x4 --stage 1 --rule muon --matrix-tensor-parallel"
                  " distributed",
                  "byte_gpt --grid 2x1x1 --stage 1 --rule lamb --dtype e4m3",
                  f"{model} --grid 1x1x4 --stage 1 --exp-avg-dtype e4m3",
                  f"{model} --grid 5x1x1 --windows params --bucket 1024 --grad-dtype bf16"
                  " --order contiguous"):
        plan(flags)
    lines = schema["$defs"]["line"]["properties"]
    for member in ("phase", "over", "collective", "of"):
        check(seen[member] == set(lines[member]["enum"]), f"plans have other values of {member}")

    # The names of the program: its list of settings.
    listed = subprocess.run([zeroproof, "list", "--settings"], capture_output=True, text=True)
    names = {line.split()[0]: {word.strip(",") for word in line.split()[2:]}
             for line in listed.stdout.splitlines() if line[0] != " "}
    settings = schema["$defs"]["settings"]["properties"]
    for setting in ("rule", "order", "windows"):
        check(set(settings[setting]["enum"]) == names[setting], f"names of {setting}")
    for rule in sorted(names["rule"]):
        plan(f"byte_gpt_tiny --rule {rule}")

    whole = plan("byte_gpt_tiny --stage 1 --grid 2x1x1 --measure")
    strict(validator, whole, {"measured"})
    with_value(validator, whole, ("schema",), "zeroproof-plan/2")
    with_value(validator, whole, ("settings", "grid"), "2x1")
    with_value(validator, whole, ("stages", 0, "stage"), 4)
    with_value(validator, whole, ("stages", 0, "largest", "peak", "grad"), -4)
    with_value(validator, whole, ("stages", 0, "largest", "traffic", 0, "of"), "gossip")


def attributions():
    validator = Draft202012Validator(schema_of("verification/tools/attribute/attribution.schema.json"))

    def recording(name, threads, *operations):
        header = {"schema": "zeroproof-operations/1", "rank": 0, "world": 1, "libraries": {"torch": "2.15.0"},
                  "machine": {"CPU": "x"}, "environment": {}, "seed": "1"}
        lines = [header, {"settings": {"threads": threads}}, {"line": ["train.py", 3, "y = f(x)"]}, *operations,
                 {"end": len(operations)}]
        path = pathlib.Path(folder.name) / name
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return str(path)

    def operation(name, digest, forward=-1, read="d"):
        return [name, "backward" if forward >= 0 else "forward", "net", 0, forward,
                [["self", "f32[3]", read, "outside" if read == "d" else "0"]], [["result", "f32[3]", digest]]]

    def attribution(old, new):
        document = written(zeroproof, "attribute", old, new, "--json", "{}")
        valid(validator, document, f"{old} {new}")
        return document

    old = recording("old", "1", operation("aten.mm.default", "a"), operation("aten.add.Tensor", "b", 0, "a"))
    equal = attribution(old, old)
    check(equal["equal"] and equal["verdict"] == "equal", "equal recordings are equal")
    drift = attribution(old, recording("new", "2", operation("aten.mm.default", "a"),
                                       operation("aten.add.Tensor", "c", 0, "a")))
    check(drift["sentence"] == "drift, explained by threads 1 -> 2", drift["sentence"])
    operation_of = ("ranks", 0, "origin", "new")
    strict(validator, drift, {"old", "new", "line", "forward"},
           {("ranks", 0, side, name) for side in ("old", "new") for name in ("libraries", "machine")} | {("ranks", 0)})
    replaced = attribution(old, recording("other", "1", operation("aten.bmm.default", "e"),
                                          operation("aten.add.Tensor", "c", 0, "e")))
    check(replaced["ranks"][0]["origin"]["inserted"][0]["name"] == "aten.bmm.default", "the inserted operation")
    with_value(validator, drift, ("verdict",), "wrong")
    with_value(validator, drift, (*operation_of, "phase"), "sideways")
    with_value(validator, drift, (*operation_of, "index"), -1)


reports()
evidence()
plans()
attributions()
print("failed" if failures else "passed")
sys.exit(1 if failures else 0)
