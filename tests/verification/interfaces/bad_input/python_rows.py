"""Bad input of the package zproof, and the expected answers: the class of the exception and a part of its sentence."""

import sys
from pathlib import Path

import numpy as np
import zproof
from command_rows import Row

sys.path.append(str(Path(__file__).parents[1] / "python"))
from support import OnDevice  # noqa: E402

F = np.float32
NUMEL = 37
NAN = float("nan")
reference = zproof.reference


def kernel(grad, master, exp_avg, exp_avg_sq, *, scalars):
    pass


class Arrays:
    """Correct arrays, which no refused call may change."""

    def __init__(self):
        values = np.linspace(0.5, 1.5, NUMEL, dtype=F)
        self.grad, self.master, self.exp_avg, self.exp_avg_sq = (values * scale for scale in (F(1), F(2), F(3), F(4)))
        self.read_only = values.copy()
        self.read_only.flags.writeable = False
        self.params = {"weight": np.ones((3, 4), F), "bias": np.ones(3, F)}
        self.grads = {"weight": np.full((3, 4), 2, F), "bias": np.full(3, 2, F)}

    def bytes(self):
        return [array.tobytes() for array in (self.grad, self.master, self.exp_avg, self.exp_avg_sq, self.read_only,
                                              *self.params.values(), *self.grads.values())]

    def adamw(self, **other):
        words = dict(grad=self.grad, master=self.master, exp_avg=self.exp_avg, exp_avg_sq=self.exp_avg_sq, t=1,
                     inplace=True)
        return reference.adamw(**{**words, **other})

    def step(self, **other):
        words = dict(params=self.params, grads=self.grads)
        return zproof.step(**{**words, **other})

    def weight(self, value):
        return {**self.grads, "weight": value}


def _rows(interface, *rows):
    return [Row(interface, given, says, run, kind=kind) for given, kind, says, run in rows]


def array_rows():
    wide, strided = np.ones(NUMEL), np.ones(2 * NUMEL, F)[::2]
    shifted = np.zeros(4 * NUMEL + 1, np.uint8)[1:].view(F)
    return _rows(
        "zproof.reference",
        ("fp64", "TypeError", "master has elements of float64", lambda a: a.adamw(master=wide)),
        ("integers", "TypeError", "grad has elements of int32", lambda a: a.adamw(grad=np.ones(NUMEL, np.int32))),
        ("bf16 for fp32", "TypeError", "grad has elements of uint16", lambda a: a.adamw(grad=np.ones(NUMEL, np.uint16))),
        ("fp32 for bf16", "TypeError", "source has elements of float32", lambda a: reference.widen(a.grad, "bf16")),
        ("another shape", "ValueError", "master has another shape", lambda a: a.adamw(master=a.master[:-1])),
        ("the same elements in another shape", "ValueError", "exp_avg has another shape",
         lambda a: a.adamw(exp_avg=a.exp_avg.reshape(NUMEL, 1))),
        ("gaps between elements", "ValueError", "grad is not contiguous", lambda a: a.adamw(grad=strided)),
        ("elements backwards", "ValueError", "grad is not contiguous", lambda a: a.adamw(grad=a.grad[::-1])),
        ("elements off their alignment", "ValueError", "grad begins inside", lambda a: a.adamw(grad=shifted)),
        ("a read-only array that is written", "ValueError", "master is read-only",
         lambda a: a.adamw(master=a.read_only)),
        ("the same, of clip", "ValueError", "grad is read-only",
         lambda a: reference.clip(a.read_only, 0.5, inplace=True)),
        ("the gradient as its master", "ValueError", "master shares memory", lambda a: a.adamw(grad=a.master)),
        ("one array twice", "ValueError", "exp_avg_sq shares memory", lambda a: a.adamw(exp_avg_sq=a.exp_avg)),
        ("a tensor on a device", "ValueError", "grad is on device type 2", lambda a: a.adamw(grad=OnDevice(NUMEL))),
        ("a leaf on a device", "ValueError", "leaf 1 is on device type 2",
         lambda a: reference.grad_sum([a.grad, OnDevice(NUMEL)])),
        ("a list of numbers", "TypeError", "grad is a list", lambda a: a.adamw(grad=[1.0])),
        ("None", "TypeError", "master is a NoneType", lambda a: a.adamw(master=None, inplace=False)),
        ("a number for a list of arrays", "TypeError", "leaves is 3", lambda a: reference.grad_sum(3)),
        ("no leaves", "ValueError", "leaves is empty", lambda a: reference.grad_sum([])),
    )


def setting_rows():
    scaler = dict(log2_scale=4, growth_tracker=0, hysteresis_left=1)
    rows = [(f"`{name}` is NaN", "ValueError", f"{name} is nan", lambda a, name=name: a.adamw(**{name: NAN}))
            for name in ("lr", "beta1", "beta2", "eps", "weight_decay")]
    return _rows(
        "zproof.reference", *rows,
        ("`lr` is infinite", "ValueError", "lr is inf", lambda a: a.adamw(lr=float("inf"))),
        ("`beta2` is 1", "ValueError", "beta2 is 1", lambda a: a.adamw(beta2=1.0)),
        ("`eps` is 0", "ValueError", "eps is 0", lambda a: a.adamw(eps=0.0)),
        ("`t` is 0", "ValueError", "t is 0", lambda a: a.adamw(t=0)),
        ("`t` is NaN", "TypeError", "t is nan", lambda a: a.adamw(t=NAN)),
        ("`t` is a text", "TypeError", "t is '1'", lambda a: a.adamw(t="1")),
        ("`t` is True", "TypeError", "t is True", lambda a: a.adamw(t=True)),
        ("`t` of 70 bits", "ValueError", "it is out of range", lambda a: a.adamw(t=2**70)),
        ("`lr` is a text", "TypeError", "lr is 'fast'", lambda a: a.adamw(lr="fast")),
        ("`amsgrad` is 1", "TypeError", "amsgrad is 1", lambda a: a.adamw(amsgrad=1)),
        ("`inplace` is a text", "TypeError", "inplace is 'no'", lambda a: a.adamw(inplace="no")),
        ("`amsgrad` without its buffer", "ValueError", "max_exp_avg_sq", lambda a: a.adamw(amsgrad=True)),
        ("an unknown setting", "ValueError", "did you mean beta1",
         lambda a: reference.step_scalars("adamw", t=1, beta=0.9)),
        ("an unknown rule", "ValueError", "did you mean adam?", lambda a: reference.step_scalars("adamm", t=1)),
        ("a matrix of one dimension", "ValueError", "matrix has 1 dimensions", lambda a: reference.newton_schulz(a.grad)),
        ("matrices that have no product", "ValueError", "left has 4 columns and right 3",
         lambda a: reference.matrix_product(np.ones((3, 4), F), np.ones((4, 3), F))),
        ("factors of an unknown dtype", "ValueError", "did you mean bf16",
         lambda a: reference.matrix_product(np.ones((2, 2), F), np.ones((2, 2), F), "bf61")),
        ("an unknown set of coefficients", "ValueError", "is no value of coefficients (it selects a computation of muon",
         lambda a: reference.newton_schulz(np.ones((2, 2), F), coefficients="quntic")),
        ("matrices of different shapes", "ValueError", "another shape",
         lambda a: reference.muon(np.ones((2, 2), F), np.ones((2, 3), F), np.ones((2, 2), F))),
        ("`momentum` is a text", "TypeError", "momentum is '1'",
         lambda a: reference.muon(*(np.ones((2, 2), F) for _ in range(3)), momentum="1")),
        ("`ns_steps` is 65", "ValueError", "65", lambda a: reference.newton_schulz(np.ones((3, 4), F), ns_steps=65)),
        ("an unknown scale", "ValueError", "did you mean spectral?",
         lambda a: reference.muon(*(np.ones((3, 4), F) for _ in range(3)), scale="spectrl")),
        ("a rule that is a number", "TypeError", "rule is 3", lambda a: reference.step_scalars(3, t=1)),
        ("an unknown dtype", "ValueError", "did you mean bf16", lambda a: reference.cast(a.grad, "bf61")),
        ("fp32 as the dtype of a cast", "ValueError", "a cast to fp32", lambda a: reference.cast(a.grad, "fp32")),
        ("a dtype that is None", "TypeError", "dtype is None", lambda a: reference.cast(a.grad, None)),
        ("a factor that is a text", "TypeError", "clip_coef is 'x'", lambda a: reference.clip(a.grad, "x")),
        ("a limit that is NaN", "ValueError", "clip_value is nan",
         lambda a: reference.clip_value(a.grad, NAN, inplace=True)),
        ("`max_norm` below 0", "ValueError", "max_norm", lambda a: reference.clip_coef(1.0, -1.0)),
        ("an unknown loss scaler", "ValueError", "did you mean dynamic", lambda a: reference.loss_scaler_init(kind="dynamc")),
        ("an unknown setting of a loss scaler", "ValueError", "did you mean hysteresis",
         lambda a: reference.loss_scaler_init(hysteresi=2)),
        ("`max_norm` is NaN", "ValueError", "max_norm is nan", lambda a: reference.clip_coef(1.0, NAN)),
        ("an unknown norm", "ValueError", "no form of the norm", lambda a: reference.grad_norm(a.grad, "two")),
        ("a p-norm of NaN", "ValueError", "the order of a p-norm is nan", lambda a: reference.grad_norm(a.grad, NAN)),
        ("a seed below 0", "ValueError", "seed is -1", lambda a: reference.stochastic_cast(a.grad, seed=-1, step=1)),
        ("a part of a loss scaler's state", "ValueError", "has no growth_tracker",
         lambda a: reference.loss_scaler_update({"log2_scale": 1}, False, kind="dynamic")),
        ("`found_inf` is a text", "TypeError", "found_inf is 'no'",
         lambda a: reference.loss_scaler_update(scaler, "no", kind="dynamic")),
    )


def step_rows():
    moment = {"weight": np.ones((3, 4), F), "bias": np.ones(3, F)}
    return _rows(
        "zproof.step",
        ("no parameters", "ValueError", "params is empty", lambda a: a.step(params={})),
        ("parameters that are no dict", "TypeError", "params is [1]", lambda a: a.step(params=[1])),
        ("a parameter whose name is a number", "TypeError", "params has the key 3", lambda a: a.step(params={3: a.grad})),
        ("no gradients", "ValueError", "grads is empty", lambda a: a.step(grads=[])),
        ("gradients that are None", "TypeError", "grads is None", lambda a: a.step(grads=None)),
        ("a gradient less", "ValueError", "has nothing for weight", lambda a: a.step(grads={"bias": a.grads["bias"]})),
        ("a gradient of no parameter", "ValueError", "did you mean bias?",
         lambda a: a.step(grads={**a.grads, "bais": a.grads["bias"]})),
        ("another dtype", "TypeError", "has elements of float64", lambda a: a.step(grads=a.weight(np.ones((3, 4))))),
        ("another shape", "ValueError", "another shape", lambda a: a.step(grads=a.weight(np.ones((4, 3), F)))),
        ("gaps between elements", "ValueError", "is not contiguous",
         lambda a: a.step(grads=a.weight(np.ones((4, 3), F).T))),
        ("a gradient on a device", "ValueError", "is on device type 2", lambda a: a.step(grads=a.weight(OnDevice(NUMEL)))),
        ("a gradient that is a number", "TypeError", "is a int", lambda a: a.step(grads=a.weight(3))),
        ("a gradient that is NaN, under `on_nonfinite=\"error\"`", "FloatingPointError", "is not finite",
         lambda a: a.step(grads=a.weight(np.full((3, 4), NAN, F)), on_nonfinite="error")),
        ("`lr` is NaN", "ValueError", "lr is nan", lambda a: a.step(lr=NAN)),
        ("`max_norm` is NaN", "ValueError", "max_norm is nan", lambda a: a.step(max_norm=NAN)),
        ("an unknown setting", "ValueError", "did you mean max_norm?", lambda a: a.step(maxnorm=1.0)),
        ("a rule that is a number", "TypeError", "rule is 3", lambda a: a.step(rule=3)),
        ("`world` is 0", "ValueError", "world is 0", lambda a: a.step(world=0)),
        ("`world` is 257", "ValueError", "world is 257", lambda a: a.step(world=257)),
        ("`world` is 1.5", "TypeError", "world is 1.5", lambda a: a.step(world=1.5)),
        ("`stage` is True", "TypeError", "stage is True", lambda a: a.step(stage=True)),
        ("`bucket` is 1000", "ValueError", "bucket_numel is 1000", lambda a: a.step(bucket=1000)),
        ("an unknown rule", "ValueError", "did you mean adamw?", lambda a: a.step(rule="adamww")),
        ("an unknown norm", "ValueError", "did you mean chunk1024?", lambda a: a.step(norm="chunk")),
        ("an unknown order", "ValueError", "did you mean strided?", lambda a: a.step(order="stride")),
        ("fp32 gradients under `grad_dtype=\"fp16\"`", "TypeError", "of float32", lambda a: a.step(grad_dtype="fp16")),
        ("`dtype=\"e4m3\"`", "ValueError", "parameters are e4m3", lambda a: a.step(dtype="e4m3")),
        ("a micro-batch that is a list", "TypeError", "micro-batch 0 is a list", lambda a: a.step(grads=[[1]])),
        ("`stage` is 4", "ValueError", "the ZeRO stage is 4", lambda a: a.step(stage=4)),
        ("`world` of 100 bits", "ValueError", "it is out of range", lambda a: a.step(world=2**100)),
        ("`order` is None", "TypeError", "order is None", lambda a: a.step(order=None)),
        ("`grad_sum=\"native\"`", "ValueError", "use tree or binned", lambda a: a.step(grad_sum="native")),
        ("a state that is no dict", "TypeError", "state is [1]", lambda a: a.step(state=[1])),
        ("an unknown buffer", "ValueError", "did you mean exp_avg?", lambda a: a.step(state={"exp_agv": moment})),
        ("a buffer that the rule does not keep", "ValueError", "state has momentum_buffer",
         lambda a: a.step(state={"momentum_buffer": moment})),
        ("`applied_steps` is a text", "TypeError", "applied_steps is 'x'", lambda a: a.step(state={"applied_steps": "x"})),
        ("an empty state of the loss scaler", "ValueError", "has no log2_scale", lambda a: a.step(state={"scaler": {}})),
        ("a loss scaler that is a list", "TypeError", "loss_scaler is [1]", lambda a: a.step(loss_scaler=[1])),
        ("a param group that matches nothing", "ValueError", "param group 'x' matches no tensor",
         lambda a: a.step(param_groups=[dict(name="x", match="*.norm")])),
        ("a param group with an unknown key", "ValueError", "did you mean lr_mult?",
         lambda a: a.step(param_groups=[dict(name="x", match="*", lr_mul=2.0)])),
        ("a param group whose rate is NaN", "ValueError", "lr_mult is nan",
         lambda a: a.step(param_groups=[dict(name="x", match="*", lr_mult=NAN)])),
        ("a clip group without a name", "ValueError", "clip group 1 has no name",
         lambda a: a.step(clip_groups=[dict(match="*")])),
        ("a clip group whose limit is NaN", "ValueError", "max_norm is nan",
         lambda a: a.step(clip_groups=[dict(name="x", match="*", max_norm=NAN)])),
        ("clip groups that are a dict", "TypeError", "clip_groups is {", lambda a: a.step(clip_groups={"name": "x"})),
        ("`ns_steps` of muon is 0", "ValueError", "steps", lambda a: a.step(rule="muon", ns_steps=0)),
        ("an unknown set of coefficients", "ValueError", "did you mean cans?", lambda a: a.step(rule="muon", coefficients="can")),
        ("a setting of muon with another rule", "ValueError", "settings of muon are given with the rule adamw",
         lambda a: a.step(ns_steps=3)),
        ("`adamw` that matches no matrix", "ValueError", "'bias' in muon.adamw matches no tensor",
         lambda a: a.step(rule="muon", adamw=["bias"])),
        ("`adamw` with another rule", "ValueError", "only the rule muon updates matrices", lambda a: a.step(adamw=["weight"])),
        ("a matrix split that leaves rows over", "ValueError", "matrix split 's' has a period of 2",
         lambda a: a.step(rule="muon", matrix_splits=[dict(name="s", match="weight", rows=[2])])),
        ("a matrix split with rows and columns", "ValueError", "matrix split 's' has rows and columns",
         lambda a: a.step(rule="muon", matrix_splits=[dict(name="s", match="weight", rows=[3], columns=[4])])),
    )


def judge_rows():
    def judge(fn=kernel, op="adamw", **words):
        return lambda a: zproof.judge(fn, op, **{"fills": "training", **words})

    returning = lambda value: lambda grad, master: value(master)  # noqa: E731
    return _rows(
        "zproof.judge",
        ("no callable", "TypeError", "it cannot be called", judge("adamw")),
        ("an unknown parameter", "TypeError", "did you mean grad?", judge(lambda grads: None)),
        ("an unknown operation", "ValueError", "did you mean adamw?", judge(op="adamwe")),
        ("an operation that is a number", "TypeError", "op is 3", judge(op=3)),
        ("an unknown fill", "ValueError", "did you mean ties?", judge(fills="tise")),
        ("fills that are a number", "TypeError", "fills is 3", judge(fills=3)),
        ("no fills", "ValueError", "fills is empty", judge(fills=[])),
        ("an unknown dialect", "ValueError", "did you mean torch-cpu-fused?",
         judge(accept="dialect:torch-cpu-fusd")),
        ("`accept=\"any_order\"`", "ValueError", "did you mean any-order?", judge(accept="any_order")),
        ("`accept=\"fp32-powers\"`", "ValueError", "use any-order,fp32-powers", judge(accept="fp32-powers")),
        ("the same, of a cast", "ValueError", "fp32-powers applies to updates with a bias correction",
         judge(lambda source: None, "cast_to_bf16", accept="any-order,fp32-powers")),
        ("a parameter without a keyword", "TypeError", "takes no keyword", judge(eval("lambda grad, /: None"))),
        ("an unknown dtype", "ValueError", "did you mean bf16?", judge(dtype="bf17")),
        ("`accept=\"sideways\"`", "ValueError", "accept is 'sideways'", judge(accept="sideways")),
        ("`accept` is None", "TypeError", "accept is None", judge(accept=None)),
        ("`dtype=\"fp8\"`", "ValueError", "'fp8' is no dtype", judge(dtype="fp8")),
        ("a dtype that the operation does not have", "ValueError", "does not go with dtype", judge(op="clip", dtype="bf16")),
        ("a seed below 0", "ValueError", "seed is -1", judge(seed=-1)),
        ("a seed that is NaN", "TypeError", "seed is nan", judge(seed=NAN)),
        ("an unknown framework", "ValueError", "did you mean torch?", judge(framework="toch")),
        ("numpy on a device", "ValueError", "device is 'cuda'", judge(device="cuda")),
    ) + [Row("zproof.judge", given, says, judge(returning(value)), kind="error") for given, says, value in (
        ("results of another dtype", "master was returned as float64", lambda m: m.astype(np.float64)),
        ("results of another shape", "master was returned with shape (5,)", lambda m: np.zeros(5, F)),
        ("results on a device", "master was returned on a device", lambda m: OnDevice(NUMEL)),
        ("results that are no arrays", "master was returned", lambda m: "x"),
        ("a result more", "it returned 6 arrays", lambda m: (m,) * 6),
        ("an unknown result", "did you mean master?", lambda m: {"mastre": m}))]


def assert_rows():
    check = zproof.assert_step_close
    return _rows(
        "zproof.assert_step_close",
        ("None", "TypeError", "actual is a NoneType", lambda a: check(None, a.grad)),
        ("a tensor on a device", "TypeError", "actual is on CUDA 0", lambda a: check(OnDevice(NUMEL), a.grad)),
        ("objects", "TypeError", "has elements of type object", lambda a: check(np.array([object()]), a.grad[:1])),
        ("`ulps` below 0", "ValueError", "ulps is -1", lambda a: check(a.grad, a.grad, ulps=-1)),
        ("`ulps` is NaN", "TypeError", "ulps is nan", lambda a: check(a.grad, a.grad, ulps=NAN)),
        ("`bound` is NaN", "ValueError", "bound has elements below 0 or NaN", lambda a: check(a.grad, a.grad, bound=NAN)),
        ("a tolerance in one part", "ValueError", "rtol alone", lambda a: check(a.grad, a.grad, rtol=0.1)),
        ("an unknown dtype", "ValueError", "'bf61' is no format", lambda a: check(a.grad, a.grad, dtype="bf61")),
    )


def run_rows():
    nothing = lambda folder, stage=1: None  # noqa: E731
    ab = lambda **words: lambda a: zproof.ab(nothing, **{"a": {}, "b": {}, **words})  # noqa: E731
    return _rows(
        "zproof.ab",
        ("a training that records nothing", "ValueError", "train(stage=2) recorded nothing", ab(a={"stage": 2})),
        ("a number as the factor", "TypeError", "gradients_within is 'x'", ab(gradients_within="x")),
        ("no folder for zproof.judge_run", "ValueError", "cannot be read", lambda a: zproof.judge_run("nowhere")),
    )


def python_rows():
    return array_rows() + setting_rows() + step_rows() + judge_rows() + run_rows() + assert_rows()


def command_lines():
    """Of python -m zproof: exit 2."""
    line = lambda given, says, *words: Row("python -m zproof", given, says, words)  # noqa: E731
    return [
        line("no callable", "names no callable", "verify", "adamw"),
        line("a missing file", "there is no file none.py", "verify", "none.py:adamw"),
        line("a missing module", "cannot be imported", "verify", "no_such_module:adamw"),
        line("a missing function", "has no no_such_function", "verify", "os:no_such_function", "--op", "adamw"),
        line("a function named after no operation", "is named after no operation", "verify", "os:getcwd"),
        line("an unknown operation", "did you mean adamw?", "verify", "os:getcwd", "--op", "adamwe"),
        line("`--accept sideways`", "accept is 'sideways'", "verify", "os:getcwd", "--op", "adamw", "--accept", "sideways"),
        line("a report in no folder", "cannot be written", "verify", "os:getcwd", "--report", "json:nowhere/x"),
        line("a folder without a bundle", "cannot be read", "replay", "nowhere", "os:getcwd"),
    ]
