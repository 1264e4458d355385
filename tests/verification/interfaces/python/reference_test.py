"""The reference implementations on arrays: bits, memory, and refusals."""

import os
import subprocess
import tempfile
import threading
import unittest

import numpy as np
from support import Exporter, F, one_sentence, read_safetensors, same_bits, write_safetensors

import zproof
from zproof import reference as r

N = 1037


def buffers(seed=0):
    rng = np.random.default_rng(seed)
    grad, master, exp_avg = (rng.normal(size=N).astype(F) for _ in range(3))
    return grad, master, exp_avg, np.square(rng.normal(size=N)).astype(F)


class Bits(unittest.TestCase):
    def test_adamw_on_paper(self):
        # t = 1, beta1 = beta2 = 1/2, lr = 1/8, eps = 2^-20 far below the last bit of 2, no decay, no correction:
        # exp_avg = 2, exp_avg_sq = 8, sqrt(8) rounded to fp32, master = 1 - 1/8 * (2 / that).
        out = r.adamw(np.array([4], F), np.array([1], F), np.zeros(1, F), np.zeros(1, F), t=1, lr=0.125, beta1=0.5,
                      beta2=0.5, eps=2.0**-30, weight_decay=0, bias_correction=False)
        same_bits(self, out["exp_avg"], np.array([2], F))
        same_bits(self, out["exp_avg_sq"], np.array([8], F))
        root = F(2.8284270763397217)  # the fp32 next to sqrt(8)
        same_bits(self, out["master"], np.array([F(1) - F(0.125) * (F(2) / root)], F))

    def test_every_rule_moves_and_keeps_what_it_should(self):
        grad, master, exp_avg, exp_avg_sq = buffers()
        kept = {
            "adamw": r.adamw(grad, master, exp_avg, exp_avg_sq, t=2),
            "adam": r.adam(grad, master, exp_avg, exp_avg_sq, exp_avg_sq, t=2, amsgrad=True),
            "sgd": r.sgd(grad, master, t=2),
            "momentum": r.sgd(grad, master, exp_avg, t=2, momentum=0.9, nesterov=True),
            "sgd_ema": r.sgd_ema(grad, master, exp_avg, t=2),
            "lion": r.lion(grad, master, exp_avg, t=2),
            "lamb": r.lamb(grad, master, exp_avg, exp_avg_sq, t=2),
        }
        self.assertEqual(list(kept["adam"]), ["master", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"])
        self.assertEqual(list(kept["sgd"]), ["master"])
        self.assertEqual(list(kept["momentum"]), ["master", "momentum_buffer"])
        same_bits(self, kept["sgd"]["master"], master - F(1e-3) * grad)
        for name, out in kept.items():
            self.assertGreater((out["master"] != master).mean(), 0.9, name)  # some move less than their last bit

    def test_muon_on_paper(self):
        # 2 I has the norm 2 sqrt(2), and X is bf16(0.7071..) = 0.70703125 on the diagonal. A = X X = 0.49989.. is 0.5
        # in bf16, and S = 1/4. u = -4.775 / 2, v = 2.0315 / 4, and their sum -1.879625 is B = -1.8828125 in bf16.
        # P = B X = -1.3312073, w = 3.4445 X = 2.435369, and their sum 1.1041617 is 1.1015625 in bf16.
        out = r.newton_schulz(np.eye(2, dtype=F) * 2, ns_steps=1)
        same_bits(self, out, np.array([[1.1015625, 0], [0, 1.1015625]], F))
        # momentum 1/2 of both: exp_avg = 1/2 * 2 + 1/2 * 2 = 2, the same matrix; lr * sqrt(max(1, 2 / 2)) = 1/4.
        step = r.muon(np.eye(2, dtype=F) * 2, np.ones((2, 2), F), np.eye(2, dtype=F) * 2, lr=0.25, momentum=0.5,
                      nesterov=False, weight_decay=0, ns_steps=1)
        same_bits(self, step["exp_avg"], np.eye(2, dtype=F) * 2)
        same_bits(self, step["orthogonal"], out)
        same_bits(self, step["master"], np.ones((2, 2), F) - F(0.25) * out)
        # With other rows in exp_avg it becomes ones, and 1/2 of it beside 1/2 of the gradient is Nesterov's direction.
        for nesterov, direction in (False, [[1, 1], [1, 1]]), (True, [[1.5, 0.5], [0.5, 1.5]]):
            step = r.muon(np.eye(2, dtype=F) * 2, np.ones((2, 2), F), np.array([[0, 2], [2, 0]], F), momentum=0.5,
                          nesterov=nesterov)
            same_bits(self, step["orthogonal"], r.newton_schulz(np.array(direction, F)))

    def test_matrix_products_have_a_fixed_order_and_newton_schulz_orthogonalises(self):
        rng = np.random.default_rng(5)
        left, right = rng.normal(size=(5, 19)).astype(F), rng.normal(size=(3, 19)).astype(F)
        got = r.matrix_product(left, right, "fp32")
        self.assertEqual(got.shape, (5, 3))
        self.assertLess(np.abs(got - left.astype(float) @ right.T.astype(float)).max(), 1e-5)
        self.assertFalse((got == r.matrix_product(left, right)).all())  # rounded factors
        square = r.matrix_product(left, left)
        same_bits(self, square, np.ascontiguousarray(square.T))
        for words in (dict(), dict(coefficients="polar_express", ns_steps=8, factors="fp32", form="scaled_factor")):
            for shape in ((30, 70), (70, 30)):
                singular = np.linalg.svd(r.newton_schulz(rng.normal(size=shape).astype(F), **words), compute_uv=False)
                self.assertTrue(0.6 < singular.min() and singular.max() < 1.3, (words, singular))

    def test_lamb_on_paper(self):
        # The moments become 4 and 36 and d = 6 + 2, so u = 1/2 * 4/8 = 1/4 in each of four elements: N_u = 1/2. With
        # N_w = 5 the ratio is 1/2 * 5 / (1/2) = 5, and every element moves by 5/4. Nothing is rounded.
        four = np.full(4, 4, F)
        out = r.lamb(four, np.array([3, 4, 0, 0], F), four, np.full(4, 56, F), t=1, lr=0.5, beta1=0.5, beta2=0.5, eps=2,
                     weight_decay=0, bias_correction=False)
        same_bits(self, out["master"], np.array([1.75, 2.75, -1.25, -1.25], F))
        zeros = r.lamb(np.array([4], F), np.zeros(1, F), np.array([2], F), np.array([56], F), t=1, weight_decay=0)
        adamw = r.adamw(np.array([4], F), np.zeros(1, F), np.array([2], F), np.array([56], F), t=1, weight_decay=0)
        same_bits(self, zeros["master"], adamw["master"])  # the ratio of a tensor of zeros is 1

    def test_the_program_agrees(self):
        program = os.environ.get("ZP_PROGRAM")
        if not program:
            self.skipTest("ZP_PROGRAM is not set")
        with tempfile.TemporaryDirectory() as folder:
            call, out = folder + "/call", folder + "/out"
            for fill in ("training", "ties", "special"):
                subprocess.run([program, "gen", "adamw_update", "--fill", fill, "-o", call], check=True,
                               stdout=subprocess.DEVNULL)
                tensors, metadata = read_safetensors(call)
                s = {key[8:]: float(value) for key, value in metadata.items() if key.startswith("setting.")}
                before = {name[7:]: array for name, array in tensors.items()}
                after = r.adamw(before["grad"], before["master"], before["exp_avg"], before["exp_avg_sq"], t=int(s["t"]),
                                lr=s["lr"], beta1=s["beta1"], beta2=s["beta2"], eps=s["eps"],
                                weight_decay=s["weight_decay"])
                after["max_exp_avg_sq"] = before["max_exp_avg_sq"]
                write_safetensors(out, {f"after.{name}": array for name, array in after.items()})
                judged = subprocess.run([program, "judge", call, out], capture_output=True, text=True)
                self.assertEqual(judged.returncode, 0, judged.stdout + judged.stderr)

    def test_casts(self):
        every = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
        for dtype in ("bf16", "fp16"):
            source = every.view(np.float16) if dtype == "fp16" else every
            back = r.cast(r.widen(source, dtype), dtype)
            finite = ~np.isnan(r.widen(source, dtype))
            same_bits(self, back.view(np.uint16)[finite], every[finite])
        same_bits(self, r.cast(np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8], F), "bf16"), np.array([0x3F80, 0x3F82], np.uint16))
        drawn = {int(r.stochastic_cast(np.array([1 + 2.0**-8], F), seed=seed, step=1)[0]) for seed in range(64)}
        self.assertEqual(drawn, {0x3F80, 0x3F81})
        same_bits(self, r.widen(np.array([0x7E], np.uint8), "e4m3"), np.array([448], F))
        self.assertEqual(r.cast(np.array([448], F), "e4m3").tolist(), [0x7E])

    def test_ml_dtypes_arrays_are_taken_as_they_are(self):
        try:
            import ml_dtypes
        except ImportError:
            self.skipTest("ml_dtypes is not here")
        array = np.array([1.5, -2], ml_dtypes.bfloat16)
        same_bits(self, r.widen(array, "bf16"), np.array([1.5, -2], F))

    def test_norm_clip_and_sums(self):
        ones = np.full(1024, 3, F)
        self.assertEqual(r.grad_norm(ones), 96)
        self.assertEqual(r.grad_norm([ones, ones], "one"), 6144)
        self.assertEqual(r.grad_norm([ones, -4 * ones], "inf"), 12)
        self.assertTrue(30 < r.grad_norm(ones, 3.0) < 31)  # 30.24; with p = 2 it is 96, with 4 it is 16.97
        self.assertEqual(r.clip_coef(0.5, 1.0), 1)
        self.assertEqual(r.clip_coef(5.0, None), 1)
        self.assertLess(r.clip_coef(5.0, 1.0), 0.2)
        same_bits(self, r.clip(ones, 0.5), ones / 2)
        same_bits(self, r.clip_value(ones, 1.0), np.ones(1024, F))
        leaves = [np.array([x], F) for x in (1, 2.0**-24, 2.0**-24)]  # (1 + e) + e is 1, 1 + (e + e) is not
        tree = r.grad_sum(leaves)
        same_bits(self, tree, np.array([(F(1) + F(2.0**-24)) + F(2.0**-24)], F))
        grad, found = r.unscale(np.array([2, np.inf], F), 0.5)
        self.assertTrue(found)
        same_bits(self, grad, np.array([1, np.inf], F))

    def test_loss_scaler(self):
        config = dict(kind="dynamic", log2_initial=16, growth_interval=2)
        state = r.loss_scaler_init(**config)
        self.assertEqual(state, dict(log2_scale=16, growth_tracker=0, hysteresis_left=1))
        state = r.loss_scaler_update(r.loss_scaler_update(state, False, **config), False, **config)
        self.assertEqual(state["log2_scale"], 17)
        self.assertEqual(r.loss_scaler_update(state, True, **config)["log2_scale"], 16)


class Memory(unittest.TestCase):
    def test_new_arrays_unless_in_place(self):
        arrays = buffers()
        before = [array.copy() for array in arrays]
        new = r.adamw(*arrays, t=3)
        for array, copy in zip(arrays, before):
            same_bits(self, array, copy)
        held = r.adamw(*arrays, t=3, inplace=True)
        self.assertIs(held["master"], arrays[1])
        for name, array in zip(("master", "exp_avg", "exp_avg_sq"), arrays[1:]):
            same_bits(self, array, new[name])
        same_bits(self, arrays[0], before[0])

    def test_dlpack_both_ways_without_a_copy(self):
        arrays = buffers()
        new = r.adamw(*arrays, t=3)
        address = arrays[1].ctypes.data
        held = r.adamw(*[Exporter(array) for array in arrays], t=3, inplace=True)
        same_bits(self, arrays[1], new["master"])
        self.assertEqual(np.from_dlpack(held["master"]).ctypes.data, address)
        self.assertEqual(np.from_dlpack(new["master"]).ctypes.data, new["master"].ctypes.data)

    def test_any_shape_and_none_at_all(self):
        shaped = [array[:1036].reshape(7, 2, 74) for array in buffers()]
        flat = [array.reshape(-1).copy() for array in shaped]
        same_bits(self, r.adamw(*shaped, t=3)["master"].reshape(-1), r.adamw(*flat, t=3)["master"])
        self.assertEqual(r.adamw(*[np.zeros((3, 0), F)] * 4, t=1)["master"].shape, (3, 0))
        self.assertEqual(r.adamw(*[np.array(x, F) for x in (1, 2, 3, 4)], t=1)["master"].shape, ())

    def test_results_outlive_everything(self):
        out = [r.adamw(*buffers(seed), t=1)["master"] for seed in range(50)]
        same_bits(self, out[7], r.adamw(*buffers(7), t=1)["master"])

    def test_threads_compute_side_by_side(self):
        want = r.adamw(*buffers(), t=3)["master"]
        got = {}
        threads = [threading.Thread(target=lambda k=k: got.update({k: r.adamw(*buffers(), t=3)["master"]}))
                   for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for k in range(4):
            same_bits(self, got[k], want)


class Refusals(unittest.TestCase):  # the others: ../bad_input/python_rows.py
    def test_a_read_only_array_may_be_read(self):
        grad, master, exp_avg, exp_avg_sq = buffers()
        master.flags.writeable = False
        r.adamw(grad=grad, master=master, exp_avg=exp_avg, exp_avg_sq=exp_avg_sq, t=1)

    def test_an_exporter_that_refuses_says_why(self):
        class Refuses:
            shape = (N,)

            def __dlpack__(self, **words):
                raise BufferError("it requires grad")

            def __dlpack_device__(self):
                return (1, 0)

        with one_sentence(self, TypeError, "it requires grad", "detached"):
            r.adamw(Refuses(), *buffers()[1:], t=1)

    def test_the_package_has_no_such_name(self):
        with self.assertRaises(AttributeError):
            zproof.jugde


if __name__ == "__main__":
    unittest.main()
