"""Legal orders of AdamW's operations are accepted as callables and through files, and no wrong formula is named."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file
from support import judged

F = np.float32
D = np.float64


def fma(a, b, c):
    """a * b + c with the product unrounded."""
    return (D(a) * D(b) + D(c)).astype(F)


def average(order, beta, old, new):
    kept, rest = F(beta), F(1 - beta)
    if order == "contracted":
        return fma(kept, old, rest * new)
    if order == "moves":
        return old + rest * (new - old) if rest < 0.5 else new + kept * (old - new)
    return kept * old + rest * new


def square_average(order, beta, old, g):
    kept, rest = F(beta), F(1 - beta)
    if order == "contracted":
        return fma(rest * g, g, kept * old)
    if order == "weighted first":
        return kept * old + (rest * g) * g
    return kept * old + rest * (g * g)


def step(order, p, m, x, c1, c2, lr, eps, weight_decay):
    """The new parameter; c1, c2: bias corrections."""
    w, rate, root = F(lr * weight_decay), F(lr / c1), F(np.sqrt(c2))
    if order == "moments corrected":
        u = F(lr) * ((m / F(c1)) / (np.sqrt(x / F(c2)) + F(eps)))
    elif order == "corrections merged":
        u = F(lr * np.sqrt(c2) / c1) * m / (np.sqrt(x) + F(eps * np.sqrt(c2)))
    elif order == "foreach":  # torch.optim, capturable: the denominator holds the step size
        u = m / ((np.sqrt(x) / root + F(eps)) / rate)
    else:
        d = np.sqrt(x / F(c2) + F(eps)) if order == "eps inside" else np.sqrt(x) / root + F(eps)
        u = (rate * m) / d if order == "rate first" else rate * (m / d)
    if weight_decay == 0:
        return p - u
    if order == "contracted":
        return p - fma(w, p, u)
    if order == "decay first":
        return (p - w * p) - u
    if order == "decay as factor":
        return p * F(1 - lr * weight_decay) - u
    if order == "decay last":
        return (p - u) - w * p
    if order == "decay in step":
        return p - F(lr) * ((m / F(c1)) / (np.sqrt(x) / root + F(eps)) + F(weight_decay) * p)
    return p - (u + w * p)


def in_double(p, m, x, largest, g, c1, c2, lr, beta1, beta2, eps, weight_decay):
    g, old = D(g), D(p)
    m64 = beta1 * D(m) + (1 - beta1) * g
    x64 = beta2 * D(x) + (1 - beta2) * g * g
    m[...], x[...] = m64, x64
    if largest is not None:
        x64 = largest[...] = np.maximum(largest, x)
    p[...] = old - lr / c1 * m64 / (np.sqrt(x64 / c2) + eps) - lr * weight_decay * old


LEGAL = ("contracted", "moves", "weighted first", "moments corrected", "corrections merged", "foreach", "rate first",
         "decay first", "decay as factor", "decay last", "decay in step", "in double")
WRONG = {"eps inside": "eps were inside", "late t": "t were"}  # words of the hint


def kernel(order):
    def adamw(grad, master, exp_avg, exp_avg_sq, max_exp_avg_sq, *, t, lr, beta1, beta2, eps, weight_decay, amsgrad,
              maximize, bias_correction):
        g = -grad if maximize else grad
        t = t - 1 if order == "late t" and t > 1 else t
        c1, c2 = (1 - beta1**t, 1 - beta2**t) if bias_correction else (1, 1)
        with np.errstate(all="ignore"):
            if order == "in double":
                in_double(master, exp_avg, exp_avg_sq, max_exp_avg_sq if amsgrad else None, g, c1, c2, lr, beta1, beta2,
                          eps, weight_decay)
                return
            exp_avg[...] = average(order, beta1, exp_avg, g)
            exp_avg_sq[...] = square_average(order, beta2, exp_avg_sq, g)
            x = exp_avg_sq
            if amsgrad:
                x = max_exp_avg_sq[...] = np.maximum(max_exp_avg_sq, exp_avg_sq)
            master[...] = step(order, master, exp_avg, x, c1, c2, lr, eps, weight_decay)
    return adamw


def judged_in_files(order, folder):
    """The exit code and text of zeroproof judge on a call that this kernel computed."""
    program = os.environ["ZP_PROGRAM"]
    call, results = str(Path(folder) / "call.safetensors"), str(Path(folder) / "results.safetensors")
    subprocess.run([program, "gen", "adamw_update", "--numel", "4099", "-o", call], check=True, capture_output=True)
    before = {name.removeprefix("before."): value for name, value in load_file(call).items()}
    with open(call, "rb") as file:
        settings = json.loads(file.read(int.from_bytes(file.read(8), "little")))["__metadata__"]
    words = {name: float(settings["setting." + name]) for name in ("lr", "beta1", "beta2", "eps", "weight_decay")}
    words |= {name: settings["setting." + name] == "1" for name in ("amsgrad", "maximize", "bias_correction")}
    kernel(order)(*(before[name] for name in ("grad", "master", "exp_avg", "exp_avg_sq", "max_exp_avg_sq")),
                  t=int(settings["setting.t"]), **words)
    outputs = json.loads(settings["outputs"])
    save_file({out["name"]: before[out["name"].removeprefix("after.")] for out in outputs}, results)
    done = subprocess.run([program, "judge", call, results, "--accept", "any-order"], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


class CorrectKernels(unittest.TestCase):
    def test_callables(self):
        for order in LEGAL:
            with self.subTest(order):
                verdict = judged(kernel(order), accept="any-order")
                self.assertTrue(verdict, verdict.text)
                self.assertNotIn("as if", verdict.text)
                self.assertNotRegex(verdict.text, r"(?<![\d,])0 by bound")  # another order has other bits
                self.assertNotIn("not judged", verdict.text)

    def test_files(self):
        for order in LEGAL:
            with self.subTest(order), tempfile.TemporaryDirectory() as folder:
                status, text = judged_in_files(order, folder)
                self.assertEqual(status, 0, text)
                self.assertNotIn("as if", text)

    def test_wrong_ones(self):
        for order, hint in WRONG.items():
            with self.subTest(order), tempfile.TemporaryDirectory() as folder:
                verdict = judged(kernel(order), accept="any-order")
                self.assertFalse(verdict)
                self.assertIn(hint, verdict.text)
                status, text = judged_in_files(order, folder)
                self.assertEqual(status, 1, text)
                self.assertIn(hint, text)


if __name__ == "__main__":
    unittest.main()
