"""Bad input of the program's interfaces for user kernels and numbers, and the expected answers."""

import json
import re
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path

from tensor_files import TensorFile

WRONG, UNUSABLE, NOTHING, DAMAGED = 1, 2, 4, 7  # exit codes of verification/cli/README.md


@dataclass
class Row:
    interface: str
    given: str
    says: str
    run: object
    code: int = UNUSABLE
    kind: str = ""  # of Python: the class of the exception


class Inputs:
    """Correct files, made once by the program itself, and a folder for changed copies."""

    def __init__(self, program, build, source, folder):
        self.build, self.source, self.folder = Path(build), Path(source), Path(folder)
        run = "byte_gpt_tiny --recipe adamw --dtype bf16"
        case = f"{run} --impl host --world self --stage 1"
        for words in (["gen", "adamw_update", "--numel", "100", "-o", self.at("call")],
                      ["golden", "record", self.at("results"), "op/adamw_update", "--numel", "100"],
                      ["golden", "record", self.at("golden"), *run.split(), "--steps", "2"],
                      ["record", "--workload", "byte_gpt_tiny", "--dtype", "bf16", "--steps", "2", self.at("grads")],
                      ["verify", *case.split(), "--steps", "2", "--dump", self.at("dump")],
                      ["train", "--workload", "byte_gpt_tiny", "--steps", "1", "--dump", self.at("model")],
                      ["train", "--workload", "byte_gpt_tiny", "--steps", "1", "--checkpoint", self.at("runs")],
                      ["verify", "op/clip/host/x86-64/fill:zero", "--evidence", self.at("evidence")],
                      [*quantized(self, self.at("model"))[:-1], self.at("codes.safetensors")]):
            done = program(words)
            assert done.returncode == 0, done.stderr
        self.call = TensorFile.read(self.at("call"))
        self.results = TensorFile.read(self.at("results")).only("after.")
        self.dump = TensorFile.read(self.at("dump"))
        self.step = TensorFile.read(self.source / "tests/verification/tools/identify/recorded_steps"
                                    / "torch-cpu-fused.fused.adamw.7.safetensors")

    def at(self, name):
        return str(self.folder / name)

    def put(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def cut(self, path, part, name="short"):
        """The first bytes of a file: a share of it, or so many."""
        content = Path(path).read_bytes()
        return self.put(name, content[:part if isinstance(part, int) else int(len(content) * part)])

    def tensors(self, file, name="other"):
        return file.write(self.folder / name)

    def plugin(self, name):
        return str(self.build / "plugins" / f"{name}.so")

    def golden(self, change=None, cut=None):
        """A golden file with another record beside it."""
        content, record = Path(self.at("golden")).read_bytes(), Path(self.at("golden.toml")).read_text()
        if cut is not None:
            record = record[:int(len(record) * cut)]
        if change is not None:
            record, count = re.subn(*change, record, count=1, flags=re.M)
            assert count == 1, change
        self.put("other.toml", record)
        return self.put("other", content)


def _plugin(given, says, library, *words):
    return Row("plug-in", given, says, lambda i: ["verify", "clip", "--plugin", library(i), *words])


def plugin_rows():
    def other_machine(i):
        content = bytearray(Path(i.plugin("mine")).read_bytes())
        content[18:20] = struct.pack("<H", 243)  # e_machine of ELF: RISC-V
        return i.put("other.so", bytes(content))

    rows = [
        _plugin("no file", "No such file or directory", lambda i: i.at("none.so")),
        _plugin("a folder", "is not a file", lambda i: str(i.folder)),
        _plugin("a device", "is not a file", lambda i: "/dev/zero"),
        _plugin("an empty file", "cannot be loaded", lambda i: i.put("empty.so", "")),
        _plugin("a text", "cannot be loaded", lambda i: i.put("text.so", "no library\n")),
        _plugin("a library for another machine", "cannot be loaded", other_machine),
    ]
    for part, text in ((30, "the first 30 bytes of a library"), (64, "the first 64 bytes of a library"),
                       (0.25, "a quarter of a library"), (0.6, "three fifths of a library")):
        rows.append(_plugin(text, "cannot be loaded" if part > 1 else "died of SIGBUS", lambda i, part=part: i.cut(i.plugin("mine"), part, "short.so")))
    for name, given, says in (
            ("symbol", "a library without the function", "does not export zeroproof_get_plugin"),
            ("null_description", "a description that is NULL", "returned no description of itself"),
            ("abi", "another version of the interface", "was built for version 77 of the interface"),
            ("size", "a description of 8 bytes", "describes itself in 8 bytes"),
            ("null_name", "a name that is NULL", "has no name that is valid in a case id"),
            ("name", "a name with blanks", "has no name that is valid in a case id"),
            ("null_operations", "operations that are NULL", "has no operations"),
            ("no_operations", "no operations", "has no operations"),
            ("too_many", "more operations than there are", "lists 1000 operations"),
            ("null_operation", "an operation whose name is NULL", "has an operation without a name, number 0"),
            ("null_entry", "a function that is NULL", "lists clip_value without a function"),
            ("unknown_operation", "an unknown operation", "did you mean clip_value?"),
            ("twice", "an operation twice", "lists clip twice"),
            ("dies", "a library that aborts when it is loaded", "died of SIGABRT")):
        rows.append(_plugin(given, says, lambda i, name=name: i.plugin("refused_" + name)))
    mine = lambda i: i.plugin("mine")  # noqa: E731
    return rows + [
        _plugin("a library that does not return when it is loaded", "did not return",
                lambda i: i.plugin("refused_sleeps"), "--plugin-timeout", "1"),
        _plugin("`--plugin-timeout 0`", "--plugin-timeout is 0", mine, "--plugin-timeout", "0"),
        _plugin("`--accept sideways`", "--accept is 'sideways'", mine, "--accept", "sideways"),
        _plugin("`--accept fp32-powers`", "use any-order,fp32-powers", mine, "--accept", "fp32-powers"),
        Row("plug-in", "`--accept any-order,fp32-powers`, of SGD", "--accept fp32-powers was given for op/sgd_update_bf16",
            lambda i: ["verify", "sgd_update_bf16", "--plugin", i.plugin("narrow"), "--accept", "any-order,fp32-powers"]),
        _plugin("`--accept dialect:torch-cpu-fusd`", "did you mean torch-cpu-fused?", mine, "--accept",
                "dialect:torch-cpu-fusd"),
        _plugin("`--declined maybe`", "--declined is 'maybe'", mine, "--declined", "maybe"),
        _plugin("`--second-seed one`", "--second-seed is 'one'", mine, "--second-seed", "one"),
        Row("plug-in", "`--second-seed 1`, which is the first seed too", "--second-seed is 1, which is also",
            lambda i: ["verify", "adamw_update", "--plugin", i.plugin("mine"), "--second-seed", "1"]),
        Row("plug-in", "`--second-seed 5` without a library", "without --plugin",
            lambda i: ["verify", "clip", "--second-seed", "5"]),
        Row("plug-in", "`--accept any-order` without a library", "without --plugin",
            lambda i: ["verify", "clip", "--accept", "any-order"]),
        Row("plug-in", "`golden check --plugin` with a text", "cannot be loaded",
            lambda i: ["golden", "check", i.at("results"), "--plugin", i.put("text.so", "no library\n")]),
    ]


def _judge(given, says, results, code=UNUSABLE, *words):
    """results: of Inputs, the file of results; the call is correct."""
    return Row("judge", given, says, lambda i: ["judge", i.at("call"), results(i), *words], code)


def judge_rows():
    made = lambda change: lambda i: i.tensors(change(i.results))  # noqa: E731
    right = lambda i: i.tensors(i.results)  # noqa: E731
    call = lambda given, says, change: Row(  # noqa: E731
        "judge", given, says, lambda i: ["judge", i.tensors(change(i.call), "call2"), i.tensors(i.results)])
    rows = [
        _judge("another dtype", "after.master is I32, wanted F32", made(lambda f: f.put("after.master", "I32")), WRONG),
        _judge("another shape", "after.master has shape [4, 25], wanted [100]",
               made(lambda f: f.put("after.master", shape=[4, 25])), WRONG),
        _judge("fewer elements", "after.master has shape [99], wanted [100]",
               made(lambda f: f.put("after.master", shape=[99], numbers=f.tensors["after.master"][2][4:])), WRONG),
        _judge("a tensor more", "'after.more' is not an output of the call",
               made(lambda f: f.put("after.more", "F32", [1], b"\0\0\0\0")), WRONG),
        _judge("a tensor less", "after.exp_avg is missing", made(lambda f: f.without("after.exp_avg")), WRONG),
        _judge("no tensor at all", "after.master is missing", lambda i: i.tensors(TensorFile()), WRONG),
        _judge("NaN among the results", "after.master differs in 1 of 100 elements, first [0]: got 0x7fc00000 (nan)",
               made(lambda f: f.with_nan("after.master")), WRONG),
        _judge("the call itself as results", "after.master is missing", lambda i: i.at("call"), WRONG),
        _judge("no file of results", "cannot be opened", lambda i: i.at("none")),
        _judge("a folder as results", "is a directory", lambda i: str(i.folder)),
        _judge("results that are no safetensors", "or is not a safetensors file", lambda i: i.put("other", "x" * 64)),
        _judge("an empty file", "has 0 bytes", lambda i: i.put("other", "")),
        _judge("`--dialect torch-cpu-fusd`", "did you mean torch-cpu-fused?", right, UNUSABLE, "--dialect",
               "torch-cpu-fusd"),
        _judge("`--dialect torch-sgd`, of AdamW", "torch-sgd does not compute", right, UNUSABLE, "--dialect", "torch-sgd"),
        _judge("`--accept sideways`", "use bits, any-order or any-order,fp32-powers", right, UNUSABLE, "--accept", "sideways"),
        _judge("`--accept fp32-powers`", "use any-order,fp32-powers", right, UNUSABLE, "--accept", "fp32-powers"),
    ]
    for part, text, says in ((4, "4 bytes of the results", "has 4 bytes"),
                             (100, "100 bytes of the results", "the file has only 92 more"),
                             (0.9, "nine tenths of the results", "it was truncated")):
        rows.append(_judge(text, says, lambda i, part=part: i.cut(i.tensors(i.results), part)))
    return rows + [
        Row("judge", "no call", "cannot be opened", lambda i: ["judge", i.at("none"), i.tensors(i.results)]),
        Row("judge", "results in the place of the call", "the metadata has no 'schema'",
            lambda i: ["judge", i.tensors(i.results), i.at("call")]),
        Row("judge", "half of a call", "it was truncated",
            lambda i: ["judge", i.cut(i.at("call"), 0.5), i.tensors(i.results)]),
        call("a call of another contract", "it was written by contract '9'", lambda f: f.saying(contract="9")),
        call("a call of another kind of file", "its schema is 'zeroproof-call/7'", lambda f: f.saying(schema="zeroproof-call/7")),
        call("a call of an unknown operation", "did you mean adamw_update?",
             lambda f: f.saying(operation="adamw_updat")),
        call("a call with another setting", "'setting.lr' differs from the value written by gen", lambda f: f.saying(**{"setting.lr": "nan"})),
        call("a call with other inputs", "before.grad differs from the input written by gen", lambda f: f.with_nan("before.grad")),
        call("a call without an input", "before.grad differs from the input written by gen", lambda f: f.without("before.grad")),
        Row("gen", "an unknown operation", "did you mean adamw_update?",
            lambda i: ["gen", "adamw_updat", "-o", i.at("made")]),
        Row("gen", "an operation whose settings have no names", "cannot be written as a call file",
            lambda i: ["gen", "grad_norm_accumulate", "-o", i.at("made")]),
        Row("gen", "`--fill tie`", "did you mean ties?", lambda i: ["gen", "clip", "--fill", "tie", "-o", i.at("made")]),
        Row("gen", "`--numel -1`", "--numel is '-1'", lambda i: ["gen", "clip", "--numel", "-1", "-o", i.at("made")]),
        Row("gen", "`--variant 99`", "--variant is '99'", lambda i: ["gen", "clip", "--variant", "99", "-o", i.at("made")]),
        Row("gen", "a folder that does not exist", "cannot be written", lambda i: ["gen", "clip", "-o", i.at("nowhere/made")]),
    ]


def _expect(given, says, theirs, code=UNUSABLE, *words):
    return Row("verify --expect", given, says, lambda i: [
        "verify", "--gradients", i.at("grads"), "--recipe", "adamw", "--expect", theirs(i), *words], code)


def expect_rows():
    some, any_order = "master.2.head.weight", ["--accept", "any-order"]
    made = lambda change: lambda i: i.tensors(change(i.dump))  # noqa: E731
    return [
        _expect("another dtype", "differs", made(lambda f: f.put(some, "I32")), WRONG),
        _expect("another shape", "differs",
                made(lambda f: f.put(some, shape=[len(f.tensors[some][2]) // 4])), WRONG),
        _expect("NaN among the numbers", "differs from step 2",
                made(lambda f: f.with_nan(some)), WRONG),
        _expect("a tensor less", "missing", made(lambda f: f.without(some)), WRONG),
        _expect("a tensor more", "did you mean 'master.2.head.weight'?",
                made(lambda f: f.put("master.2.head.wieght", "F32", [1], b"\0\0\0\0"))),
        _expect("a step that the run does not have", "whose steps are 1 to 2",
                made(lambda f: f.put("master.9.head.weight", "F32", [1], b"\0\0\0\0"))),
        _expect("numbers of another contract", "is of contract '9'",
                made(lambda f: f.saying(contract_version="9"))),
        _expect("no tensor of the run", "no tensor of a step of this run", lambda i: i.tensors(TensorFile())),
        _expect("no file", "cannot be opened", lambda i: i.at("none")),
        _expect("a text", "or is not a safetensors file", lambda i: i.put("other", "x" * 64)),
        _expect("half of the numbers", "it was truncated", lambda i: i.cut(i.at("dump"), 0.5)),
        _expect("`--phase-names` of no file", "its content is needed", lambda i: i.at("dump"), UNUSABLE, "--phase-names", "none"),
        _expect("`--accept sideways`", "--accept is 'sideways'", lambda i: i.at("dump"), UNUSABLE, "--accept", "sideways"),
        _expect("`--accept any-ordr`", "did you mean any-order?", lambda i: i.at("dump"), UNUSABLE, "--accept", "any-ordr"),
        _expect("`--accept any-order`, NaN among the numbers", "in no legal order", made(lambda f: f.with_nan(some)), WRONG,
                *any_order),
        _expect("`--accept any-order`, another dtype", "in no legal order", made(lambda f: f.put(some, "I32")), WRONG,
                *any_order),
        _expect("`--accept any-order`, a tensor less", "is missing", made(lambda f: f.without(some)), WRONG, *any_order),
        _expect("`--accept any-order`, half of the numbers", "it was truncated", lambda i: i.cut(i.at("dump"), 0.5),
                UNUSABLE, *any_order),
        Row("verify --expect", "`--accept any-order` of LAMB", "was given with the rule lamb", lambda i: [
            "verify", "--gradients", i.at("grads"), "--recipe", "lamb", "--expect", i.tensors(i.dump.only("master.")),
            *any_order]),
        Row("verify --expect", "half of the gradients", "it was truncated", lambda i: [
            "verify", "--gradients", i.cut(i.at("grads"), 0.5), "--recipe", "adamw", "--expect", i.at("dump")]),
    ]


def recording(inputs, change=lambda meta: None, tensors=lambda file: file, name="step000001.rank0.safetensors"):
    """A folder with one step of one rank: an AdamW update of two elements, whose gradient has the norm 5."""
    floats = lambda *numbers: ("F32", [len(numbers)], struct.pack(f"<{len(numbers)}f", *numbers))  # noqa: E731
    meta = {"version": 1, "program": "by hand", "rank": 0, "world": 1, "step": 1, "micro_batches": 1,
            "reduction": "mean", "applied": True, "norm": 5.0,
            "groups": [{"rule": "adamw", "lr": 0.01, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0}],
            "parameters": [{"name": "w", "shape": [2], "group": 0, "t": 1, "owned": [[0, 2]]}]}
    change(meta)
    file = TensorFile({"leaf.0.w": floats(3, 4), "reduced.w": floats(3, 4)}, {"zeroproof_recording": json.dumps(meta)})
    folder = inputs.folder / "recording"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    tensors(file).write(folder / name)
    return str(folder)


def judge_run_rows():
    row = lambda given, says, folder, *words, code=UNUSABLE: Row(  # noqa: E731
        "judge-run", given, says, lambda i: ["judge-run", folder(i), *(w(i) if callable(w) else w for w in words)], code)
    meta = lambda **keys: lambda i: recording(i, lambda m: m.update(keys))  # noqa: E731
    tensors = lambda change: lambda i: recording(i, tensors=change)  # noqa: E731
    schedule = lambda text: lambda i: i.put("schedule.toml", text)  # noqa: E731
    rate = "[optimizer]\nlr = 0.01\n"
    return [
        row("no folder", "cannot be read", lambda i: i.at("none")),
        row("a file", "cannot be read", lambda i: i.at("dump")),
        row("an empty name", "the folder's name is empty", lambda i: ""),
        row("a folder without a recording", "there is no recorded step", lambda i: str(i.folder)),
        row("a step of another name", "step1.rank0", lambda i: recording(i, name="step1.rank0.safetensors")),
        row("a file that is no safetensors", "is not a safetensors file",
            lambda i: Path(recording(i), "step000001.rank0.safetensors").write_text("x" * 64) and i.at("recording")),
        row("an unknown key", "unknown key 'nrom'", meta(nrom=1)),
        row("a version of the future", "version is", meta(version=2)),
        row("`lr` is a text", "lr is", meta(groups=[{"rule": "adamw", "lr": "high"}])),
        row("no groups", "groups is", meta(groups=[])),
        row("a missing rank", "the step has the files of 1 ranks", meta(world=2)),
        row("an element without an owner", "owned", lambda i: recording(
            i, lambda m: m["parameters"][0].update(owned=[[0, 1]]),
            lambda f: f.put("reduced.w", shape=[1], numbers=b"\0\0\0\0"))),
        row("another dtype", "I32", tensors(lambda f: f.put("reduced.w", "I32"))),
        row("fewer elements", "reduced.w", tensors(lambda f: f.put("reduced.w", shape=[1], numbers=b"\0\0\0\0"))),
        row("NaN among the gradients", "judge-run/overflow/step000001", tensors(lambda f: f.with_nan("reduced.w")), code=WRONG),
        row("a norm that is wrong", "is not the norm of all gradients", meta(norm=7.0), code=WRONG),
        row("`--steps 5..2`", "--steps", recording, "--steps", "5..2"),
        row("`--steps 9`, which is not recorded", "no step from 9 to 9 is recorded", recording, "--steps", "9"),
        row("`--accumulate fp64`", "--accumulate is 'fp64'", recording, "--accumulate", "fp64"),
        row("no schedule", "cannot be", recording, "--schedule", lambda i: i.at("none")),
        row("a schedule that is no TOML", "not valid TOML", recording, "--schedule", schedule("[optimizer\n")),
        row("a schedule without a rate", "has no optimizer.lr", recording, "--schedule", schedule("[schedule]\nwarmup = 2\n")),
        row("a schedule with another setting", "no learning rate depends on it", recording, "--schedule",
            schedule(rate + "eps = 1e-8\n")),
        row("a schedule of another model", "param group 'a'", recording, "--schedule",
            schedule(rate + '[[param_group]]\nname = "a"\nmatch = ["nothing"]\n')),
        row("a rate that is wrong", "is not the rate of update 1", recording, "--schedule",
            schedule("[optimizer]\nlr = 0.02\n"), code=WRONG),
    ]


def _golden(given, says, file, code=UNUSABLE):
    return Row("golden check", given, says, lambda i: ["golden", "check", file(i)], code)


def golden_rows():
    return [
        Row("golden", "`--results` for a golden file of the program", "is no record of arrays of a test",
            lambda i: ["golden", "check", i.at("golden"), "--results", i.at("dump")]),
        Row("golden", "`golden update --results`", "--results was given to golden update",
            lambda i: ["golden", "update", i.at("golden"), "--results", i.at("dump"), "--reason", "x"]),
        Row("golden", "`--results` for two files", "--results was given with several files",
            lambda i: ["golden", "check", i.at("golden"), i.at("golden"), "--results", i.at("dump")]),
        _golden("no file", "there is no golden record", lambda i: i.at("none")),
        _golden("a file without its record", "there is no golden record", lambda i: i.at("dump")),
        _golden("a record without its file", "cannot be opened",
                lambda i: i.put("alone.toml", Path(i.at("golden.toml")).read_bytes())[:-5]),
        _golden("a record that was changed", "has record_digest",
                lambda i: i.golden((r"^contract_version = \d+", "contract_version = 9")), DAMAGED),
        _golden("half of the record", "the origin of its file is unknown", lambda i: i.golden(cut=0.5)),
        _golden("an empty record", "has no 'schema'", lambda i: i.golden(cut=0)),
        _golden("a record without its case", "has no 'case'", lambda i: i.golden((r"^case = .*\n", ""))),
        _golden("a record of another kind", "is of schema 'x/1'", lambda i: i.golden((r"^schema = .*$", "schema = 'x/1'"))),
        _golden("half of the numbers", "is not the one that",
                lambda i: i.golden() and i.cut(i.at("golden"), 0.5, "other")),
        _golden("a byte more", "is not the one that",
                lambda i: i.golden() and i.put("other", Path(i.at("golden")).read_bytes() + b"x")),
    ]


def evidence_rows():
    made = lambda change: lambda i: i.put("other", change(Path(i.at("evidence")).read_text()))  # noqa: E731
    row = lambda given, says, file, code=UNUSABLE, *words: Row(  # noqa: E731
        "evidence", given, says, lambda i: ["evidence", file(i), *words], code)
    writing = lambda given, says, words: Row(  # noqa: E731
        "verify --evidence", given, says, lambda i: ["verify", "clip", *words(i)])
    right = lambda i: i.at("evidence")  # noqa: E731
    return [
        row("no file", "cannot be opened", lambda i: i.at("none")),
        row("a folder", "is a directory", lambda i: str(i.folder)),
        row("an empty file", "is no evidence", lambda i: i.put("other", "")),
        row("a text", "is no evidence", lambda i: i.put("other", "x" * 64)),
        row("its schema alone", "key 'evidence' not found", lambda i: i.put("other", '{"schema": "zeroproof-evidence/1"}')),
        row("half of the evidence", "is no evidence", lambda i: i.cut(i.at("evidence"), 0.5)),
        row("evidence of another schema", "is of schema 'zeroproof-evidence/0'",
            made(lambda text: text.replace("zeroproof-evidence/1", "zeroproof-evidence/0"))),
        row("another digest of a rank", "has content with the digest",
            made(lambda text: re.sub(r'("digests": \[\s*)"\w{32}"', r'\1"' + "0" * 32 + '"', text)), DAMAGED),
        row("another denominator", "has content with the digest",
            made(lambda text: text.replace("fill:zero", "fill:ties", 1)), DAMAGED),
        row("a rank less", "has content with the digest", made(lambda text: text.replace('"ranks": 1', '"ranks": 0')), DAMAGED),
        row("a run that did not finish", "has content with the digest",
            made(lambda text: text.replace('"finished": true', '"finished": false')), DAMAGED),
        row("a pattern that selects no case", "no case matches 'clp'", right, NOTHING, "clp"),
        row("a flag that does not apply", "--steps does not apply to 'clip'", right, UNUSABLE, "clip", "--steps", "2"),
        writing("a device", "is no regular file", lambda i: ["--evidence", "/dev/null"]),
        writing("a folder", "cannot be written", lambda i: ["--evidence", str(i.folder)]),
        writing("an input file", "is both input and output",
                lambda i: ["--config", i.put("c.toml", "[run]\nsteps = 4\n"), "--evidence", i.at("c.toml")]),
    ]


def _diff(given, says, first, second, code=UNUSABLE, *words):
    return Row("diff", given, says, lambda i: ["diff", first(i), second(i), *words], code)


def muon_rows():
    row = lambda given, says, text, rule="muon": Row(  # noqa: E731
        "verify --config", given, says, lambda i: [
            "verify", "byte_gpt_tiny", "--recipe", rule, "--dtype", "bf16", "--world", "self", "--config",
            i.put("muon.toml", f'[optimizer]\nrule = "{rule}"\n{text}\n')])
    split = '[[matrix_split]]\nname = "s"\n'
    return [
        row("`muon.steps = 0`", "muon.steps is 0", "[muon]\nsteps = 0"),
        row("`muon.steps = 2.5`", "muon.steps = 2.5 (expected an integer)", "[muon]\nsteps = 2.5"),
        row("`muon.eps = 0`", "muon.eps is 0", "[muon]\neps = 0"),
        row("`muon.scale_factor = -1`", "muon.scale_factor is -1", "[muon]\nscale_factor = -1"),
        row("an unknown set of coefficients", 'perhaps "quintic"', '[muon]\ncoefficients = "quntic"'),
        row("an unknown key of muon", "did you mean muon.owners?", '[muon]\nowner = "every"'),
        row("`muon.adamw` that matches no matrix", "'lm_head' in muon.adamw matches no tensor", '[muon]\nadamw = ["lm_head"]'),
        row("`[muon]` with another rule", "is set with the rule adamw", "[muon]\nsteps = 4", "adamw"),
        row("Nesterov momentum of muon without momentum", "nesterov is true with the rule muon", "nesterov = true"),
        row("a matrix split without a name", "matrix split 1 has no name", '[[matrix_split]]\nmatch = ["*"]\nrows = [1]'),
        row("a matrix split that matches no matrix", "matrix split 's' matches no matrix", split + 'match = ["*.bias"]\nrows = [1]'),
        row("a matrix split without widths", "has neither rows nor columns", split + 'match = ["*.query.weight"]'),
        row("a matrix split whose widths leave rows over", "has a period of 4 and block0.attention.query.weight has 15 rows",
            split + 'match = ["*.query.weight"]\nrows = [4]'),
        row("a matrix split with a width of 0", "has a part of 0", split + 'match = ["*.query.weight"]\ncolumns = [5, 0]'),
    ]


def other_rows():
    names = {"CODES": "codes.safetensors", "RUNS": "runs", "OUT": "out"}
    call, results = (lambda i: i.at("call")), (lambda i: i.tensors(i.results))
    step = lambda given, says, change: Row(  # noqa: E731
        "identify", given, says, lambda i: ["identify", i.tensors(change(i.step))])
    first = "before.grad.0"
    return [
        _diff("files without a common tensor", "only in the second file", call, results, WRONG),
        _diff("another dtype", "F32 [100] against I32 [100]", results,
              lambda i: i.tensors(i.results.put("after.master", "I32"), "second"), WRONG),
        _diff("another shape", "F32 [100] against F32 [4, 25]", results,
              lambda i: i.tensors(i.results.put("after.master", shape=[4, 25]), "second"), WRONG),
        _diff("NaN against a number", "nan", results,
              lambda i: i.tensors(i.results.with_nan("after.master"), "second"), WRONG),
        _diff("no tensors on either side", "neither file has a tensor", lambda i: i.tensors(TensorFile()),
              lambda i: i.tensors(TensorFile(), "second")),
        _diff("no file", "cannot be opened", call, lambda i: i.at("none")),
        _diff("a text", "or is not a safetensors file", call, lambda i: i.put("other", "x" * 64)),
        _diff("half of a file", "it was truncated", lambda i: i.cut(i.at("dump"), 0.5), call),
        _diff("a report over a compared file", "is both input and output", call, results, UNUSABLE, "--json", "call"),
        Row("identify", "no file", "cannot be opened", lambda i: ["identify", i.at("none")]),
        Row("identify", "half of a step", "it was truncated", lambda i: ["identify", i.cut(i.tensors(i.step), 0.5)]),
        Row("identify", "a dump", "is no setting of a step", lambda i: ["identify", i.at("dump")]),
        step("a step without its gradient", "belongs to no step", lambda f: f.without(first)),
        step("a moment less", "there is no tensor 'after.exp_avg.0'", lambda f: f.without("after.exp_avg.0")),
        step("another dtype", "'before.grad.0' is I32", lambda f: f.put(first, "I32")),
        step("fewer elements", "elements, its gradient", lambda f: f.put(
            "after.master.4", shape=[3], numbers=f.tensors["after.master.4"][2][:12])),
        step("a tensor more", "belongs to no step", lambda f: f.put("before.momentum_buffer.0", "F32", [1], b"\0\0\0\0")),
        step("`lr` is NaN", "lr is 'nan'", lambda f: f.saying(lr="nan")),
        step("an unknown rule", "rule is 'adamv'", lambda f: f.saying(rule="adamv")),
        *(Row("judge-run", given, says, lambda i, words=words: ["judge-run", i.at("none"), *words]) for given, says, words in (
            ("no folder", "the folder cannot be read", []),
            ("no folder on either side", "the folder cannot be read", ["--against", "nowhere"]),
            ("`--against ''`", "--against was given an empty value", ["--against", ""]),
            ("`--gradients-within 1e-5` without `--against`", "without --against", ["--gradients-within", "1e-5"]),
            ("`--gradients-within 2`", "--gradients-within is '2'", ["--against", "nowhere", "--gradients-within", "2"]),
            ("`--gradients-within nan`", "--gradients-within is 'nan'",
             ["--against", "nowhere", "--gradients-within", "nan"]),
            ("`--against` with `--accumulate fp32`", "is given with --against",
             ["--against", "nowhere", "--accumulate", "fp32"]))),
        Row("explain", "an unknown dialect", "did you mean torch-cpu-fused?",
            lambda i: ["explain", "torch-cpu-fusd"]),
        Row("quantization", "no file", "cannot be read", lambda i: rules(i.at("none"))),
        Row("quantization", "an unknown field", "did you mean quant_cfg?",
            lambda i: rules(i.put("q.yaml", "quant_cgf: []\n"))),
        Row("quantization", "a key twice", "occurs twice, first in line 1",
            lambda i: rules(i.put("q.yaml", "configs: {}\nconfigs: {}\n"))),
        Row("quantization", "a file of nested lists", "nested more than 16 deep",
            lambda i: rules(i.put("q.yaml", "[" * 5000))),
        Row("quantization", "a pattern that matches nothing", "did you mean '*mlp*'?",
            lambda i: rules(i.put("q.yaml", 'quant_cfg: [{quantizer_path: "*MLP*", enable: false}]\n'))),
        Row("quantize", "no model", "cannot be opened", lambda i: quantized(i, i.at("none"))),
        Row("quantize", "a text as a model", "or is not a safetensors file",
            lambda i: quantized(i, i.put("model.safetensors", "no model"))),
        Row("quantize", "a quantized file", "is quantized already", lambda i: quantized(i, i.at("codes.safetensors"))),
        Row("quantize", "no output", "--output is required", lambda i: quantized(i, i.at("none"))[:-2]),
        *(Row("a quantized file", f"`{words[0]}`", says, lambda i, words=words: [
            i.at(names[word]) if word in names else word for word in words])
          for words, says in quantized_rows()),
        Row("replay", "a folder without a bundle", "has no bundle.json", lambda i: ["replay", str(i.folder)]),
    ]


def rules(file):
    return ["quantization", file, "--model", "byte_gpt_tiny"]


def quantized(inputs, model):
    rules = inputs.put("q.yaml", "configs: {a: {format: int8, calibration: {method: max}}}\n"
                       'matchers: {m: {type: glob, pattern: "*mlp*", config: a, enabled: true}}\n')
    return ["quantize", model, "--config", rules, "--calibrate", inputs.put("t.txt", "t" * 99), "-o", inputs.at("out")]


def quantized_rows():
    """Commands that take a model, a state or a step, and their answers to codes with scales."""
    return [
        ("plan CODES --grid 2x1x1".split(), "is a quantized model"),
        ("verify --gradients CODES".split(), "has no known name"),
        ("checkpoint import CODES --like RUNS -o OUT".split(), "has no tensor step"),
        ("identify CODES".split(), "is no setting of a step"),
        ("judge CODES CODES".split(), "the metadata has no 'schema'"),
        ("golden check CODES".split(), "there is no golden record"),
        ("replay CODES".split(), "is damaged"),
        ("audit CODES".split(), "cannot be opened"),
    ]


_HEADER = ('{"schema":"zeroproof-operations/1","rank":0,"world":1,"libraries":{"torch":"2.15.0"},"machine":{},'
           '"environment":{},"seed":"1"}\n{"settings":{"threads":"1"}}\n{"line":["train.py",3,"y = f(x)"]}\n')
_OPERATIONS = "".join(f'["aten.{name}.default","forward","net",0,-1,[["self","f32[3]","d","outside"]],'
                      f'[["result","f32[3]","{number}"]]]\n' for number, name in enumerate(("mm", "add", "sum", "exp")))
_RECORDING = _HEADER + _OPERATIONS + '{"end":4}\n'


def attribute_rows():
    def row(given, says, content, code=UNUSABLE, words=()):
        def run(i):
            old = i.put("old.operations", _RECORDING)
            new = i.at("absent") if content is None else i.put("new.operations", content)
            return ["attribute", old, new, *words]

        return Row("attribute", given, says, run, code)

    def changed(what, by):
        assert what in _RECORDING, what
        return _RECORDING.replace(what, by, 1)

    return [
        row("no file", "cannot be opened", None),
        row("an empty file", "is empty", ""),
        row("a text", "is no recording of operations", "hello\n"),
        row("numbers in safetensors", "is no recording of operations", b"\x02\0\0\0\0\0\0\0{}\n"),
        row("another schema", "has the schema zeroproof-diff/1", '{"schema":"zeroproof-diff/1"}\n'),
        row("a header without libraries", "is no recording of operations", changed('"libraries":{"torch":"2.15.0"},', "")),
        row("rank 1 of 1", "has rank 1 of 1", changed('"rank":0', '"rank":1')),
        row("no operation", "has no operation", _HEADER + '{"end":0}\n'),
        row("the header alone, cut off", "has no operation", _HEADER[:-9]),
        row("cut off within its operations", "NEW ends after 2 operations: the program ended before the recording",
            _RECORDING[:len(_HEADER) + _OPERATIONS.index('["aten.sum') + 20], WRONG),
        row("a line of another kind", "is not valid there", changed('{"line"', '{"lines"')),
        row("a line that is no JSON", "is not valid there", changed('["aten.add', '["aten.add"]]]')),
        row("a writer that comes later", "an operation that comes later", changed('"outside"', '"3"')),
        row("a line of the program that is not there", "a number out of range", changed('"net",0', '"net",5')),
        row("a digest that is no number", "no number", changed('"f32[3]","1"', '"f32[3]","xyz"')),
        row("another count at its end", "counts 5 operations and has 4", changed('{"end":4}', '{"end":5}')),
        row("lines after its end", "goes on after its end", _RECORDING + '{"end":4}\n'),
        row("that of another model", "0 operations in common of 4", _RECORDING.replace("f32[3]", "f32[7]")),
        row("`--json` in a folder that is a file", "old.operations", _RECORDING, words=("--json", "old.operations/x")),
    ]


def command_rows():
    return (plugin_rows() + judge_rows() + expect_rows() + judge_run_rows() + golden_rows() + evidence_rows() +
            attribute_rows() + muon_rows() + other_rows())
