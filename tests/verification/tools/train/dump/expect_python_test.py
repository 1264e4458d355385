"""An AdamW in numpy, with the contract's order of operations, has the bits of the undistributed optimizer.

usage: expect_python_test.py ZEROPROOF FOLDER

Nothing but R5's scalars and the clip coefficient comes from the dump; moments, master weights and their bf16 are
computed here, from the gradients. Another order of operations must be found, in the first buffer that it changes.
"""

import json
import os
import subprocess
import sys

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

zeroproof, folder = sys.argv[1:3]
os.chdir(folder)
shapes = {"embed.weight": (11, 8), "out.bias": (1029,), "empty": (0, 3)}
STEPS, MICRO_BATCHES = 4, 2
random = np.random.default_rng(3)
first = {name: random.normal(0, 0.02, shape).astype(np.float32) for name, shape in shapes.items()}
grads = {}
for step in range(1, STEPS + 1):
    for micro_batch in range(MICRO_BATCHES):
        for name, shape in shapes.items():
            grads[f"grad.{step}.{micro_batch}.{name}"] = random.normal(0, 1, shape).astype(np.float32)
save_file({**grads, **{f"param.{name}": value for name, value in first.items()}}, "gradients")


def run(words, code):
    result = subprocess.run([zeroproof, "verify", "--gradients", "gradients", "--recipe", "adamw", "--dtype", "bf16", *words],
                            check=False, capture_output=True, text=True)
    print(result.stdout[-1500:], result.stderr)
    assert result.returncode == code, result.returncode
    return result.stdout


run(["--impl", "host", "--world", "self", "--stage", "0", "--dump", "dump", "--dump-steps", "1,2,3,4"], 0)
with safe_open("dump", "numpy") as file:
    assert file.metadata()["dtype"] == "bf16" and file.metadata()["order"].split("\n") == sorted(shapes)
    scalar = {name: file.get_tensor(name) for name in file.keys()
              if name.startswith(("step_scalars.", "clip_coef."))}
    assert all(file.get_tensor(f"master.{STEPS}.{name}").shape == shape for name, shape in shapes.items())


def to_bf16_bits(values):
    """To nearest, ties to even, of finite numbers."""
    bits = values.view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)


def train(fused_decay):
    """fused_decay: decays the master first, as many do, instead of in one subtraction."""
    master = {name: value.copy() for name, value in first.items()}
    exp_avg = {name: np.zeros_like(value) for name, value in first.items()}
    exp_avg_sq = {name: np.zeros_like(value) for name, value in first.items()}
    theirs = {}
    for step in range(1, STEPS + 1):
        s = {word: scalar[f"step_scalars.{word}.{step}"][0]
             for word in ("inv_scale", "beta1", "one_minus_beta1", "beta2", "one_minus_beta2", "sqrt_bias_correction2",
                          "step_size", "eps", "lr_weight_decay")}
        for name in shapes:
            total = grads[f"grad.{step}.0.{name}"] + grads[f"grad.{step}.1.{name}"]
            g = total * s["inv_scale"] * scalar[f"clip_coef.{step}"]
            exp_avg[name] = s["beta1"] * exp_avg[name] + s["one_minus_beta1"] * g
            exp_avg_sq[name] = s["beta2"] * exp_avg_sq[name] + s["one_minus_beta2"] * (g * g)
            d = np.sqrt(exp_avg_sq[name]) / s["sqrt_bias_correction2"] + s["eps"]
            a = s["step_size"] * (exp_avg[name] / d)
            w = s["lr_weight_decay"] * master[name]
            master[name] = (master[name] - w) - a if fused_decay else master[name] - (a + w)
            assert master[name].dtype == np.float32
            theirs[f"adam/{name}/{step}/m"] = exp_avg[name]
            theirs[f"adam/{name}/{step}/v"] = exp_avg_sq[name]
            theirs[f"master.{step}.{name}"] = master[name]
    return theirs


with open("names.toml", "w", encoding="utf-8") as file:
    file.write('exp_avg = "adam/{name}/{step}/m"\nexp_avg_sq = "adam/{name}/{step}/v"\n')
save_file(train(False), "theirs")
assert "all bits are equal" in run(["--expect", "theirs", "--phase-names", "names.toml"], 0)
save_file(train(True), "theirs")
out = run(["--expect", "theirs", "--phase-names", "names.toml"], 1)
assert "first at  step 1  buffer master  " in out and "differs from step 1" in out

# The dump's own parameters are the master rounded to bf16. numpy has no bf16, so as bits.
header_length = int.from_bytes(open("dump", "rb").read(8), "little")
content = open("dump", "rb").read()
header = json.loads(content[8:8 + header_length])
for name in shapes:
    begin, end = header[f"param.{STEPS}.{name}"]["data_offsets"]
    stored = np.frombuffer(content[8 + header_length + begin:8 + header_length + end], np.uint16)
    begin, end = header[f"master.{STEPS}.{name}"]["data_offsets"]
    master = np.frombuffer(content[8 + header_length + begin:8 + header_length + end], np.float32)
    assert (stored == to_bf16_bits(master)).all()
print("ok")
