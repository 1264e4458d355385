"""Steps of the sharded reference on virtual ranks."""

import threading
import unittest

import numpy as np
from support import F, one_sentence, same_bits

import zproof
from zproof import reference as r


def model(micro_batches=3, seed=0):
    """Parameters of all kinds of shapes, and gradients."""
    rng = np.random.default_rng(seed)
    shapes = {"weight": (70, 30), "bias": (33,), "empty": (0, 3), "scalar": (), "long": (4097,)}
    params = {name: np.asarray(rng.normal(size=shape), F) for name, shape in shapes.items()}
    grads = [{name: np.asarray(rng.normal(size=shape), F) for name, shape in shapes.items()}
             for _ in range(micro_batches)]
    return params, grads


def bits_of(step):
    return [step.params[name].tobytes() for name in step.params] + [
        tensor.tobytes() for buffer in step.state.values() if isinstance(buffer, dict)
        for tensor in buffer.values() if isinstance(tensor, np.ndarray)]


class Steps(unittest.TestCase):
    def test_the_same_bits_however_it_is_cut(self):
        params, grads = model(micro_batches=5)
        for rule, settings in [("adamw", {"max_norm": 1.0}), ("sgd", {"momentum": 0.9}), ("lion", {}), ("lamb", {}),
                               ("muon", {"momentum": 0.95, "nesterov": True, "scale": "match_rms_adamw",
                                         "adamw": ["empty"]})]:
            seen = set()
            for world in (1, 2, 3, 5):
                for stage in range(4):
                    for bucket, order in ((1024, "by_stage"), (8192, "strided")):
                        words = dict(rule=rule, world=world, stage=stage, bucket=bucket, order=order, **settings)
                        first = zproof.step(params, grads, **words)
                        second = zproof.step(params, grads, state=first.state, **words)
                        seen.add(tuple(bits_of(first) + bits_of(second)))
            self.assertEqual(len(seen), 1, rule)

    def test_it_is_the_operations_one_after_another(self):
        params, grads = model()
        step = zproof.step(params, grads, world=3, stage=2, max_norm=1.0, lr=0.01)
        scalars = r.step_scalars("adamw", t=1, divisor=3, lr=0.01)
        mean = {name: r.unscale(r.grad_sum([one[name] for one in grads]), scalars["inv_scale"])[0] for name in params}
        norm = r.grad_norm(list(mean.values()))
        coef = r.clip_coef(norm, 1.0)
        self.assertEqual((step.grad_norm, step.clip_coef, step.skipped), (norm, coef, False))
        self.assertLess(coef, 1)
        for name, param in params.items():
            after = r.adamw(r.clip(mean[name], coef), param, np.zeros_like(param), np.zeros_like(param), t=1, lr=0.01)
            for buffer, values in after.items():
                same_bits(self, step.state[buffer][name], values)
            same_bits(self, step.params[name], r.cast(after["master"], "bf16"))

    def test_muon_is_its_operations_of_whole_matrices(self):
        params, grads = model()
        options = dict(lr=0.01, momentum=0.9, nesterov=True, coefficients="cans", scale="spectral", weight_decay=0.1)
        step = zproof.step(params, grads, rule="muon", world=3, stage=2, dtype="fp32", adamw=["empty"], taps=True, **options)
        inv_scale = r.step_scalars("muon", t=1, divisor=3)["inv_scale"]
        mean = {name: r.unscale(r.grad_sum([one[name] for one in grads]), inv_scale)[0] for name in params}
        zeros = np.zeros_like(params["weight"])
        after = r.muon(mean["weight"], params["weight"], zeros, **options)
        same_bits(self, step.params["weight"], after["master"])
        same_bits(self, step.state["exp_avg"]["weight"], after["exp_avg"])
        self.assertTrue((step.state["exp_avg_sq"]["weight"] == 0).all())
        begin = step.offsets["weight"]
        shown = np.zeros(params["weight"].size, F)
        for rank in range(3):
            tap, at = step.tap("orthogonal", rank=rank), 0
            for first, last in tap.ranges:
                for index in range(first, last):
                    if begin <= index < begin + shown.size:
                        shown[index - begin] = tap.values[at + index - first]
                at += last - first
        same_bits(self, shown.reshape(after["orthogonal"].shape), after["orthogonal"])
        vector = r.adamw(mean["bias"], params["bias"], np.zeros(33, F), np.zeros(33, F), t=1, lr=0.01, weight_decay=0.1)
        same_bits(self, step.params["bias"], vector["master"])

    def test_parts_of_a_matrix(self):
        params, grads = model()
        words = dict(rule="muon", dtype="fp32", lr=0.01, momentum=0.9, world=2)
        whole = zproof.step(params, grads, **words)
        parts = zproof.step(params, grads, **words, matrix_splits=[dict(name="two", match="weight", rows=[20, 50])])
        self.assertFalse((whole.params["weight"] == parts.params["weight"]).all())
        adam = zproof.step(params, grads, **words, adamw=["weight"])
        same_bits(self, adam.params["weight"], zproof.step(params, grads, dtype="fp32", lr=0.01).params["weight"])

    def test_taps(self):
        params, grads = model()
        step = zproof.step(params, grads, world=3, stage=2, taps=True)
        self.assertEqual({tap.rank for tap in step.taps}, {0, 1, 2})
        self.assertEqual([phase for phase in dict.fromkeys(tap.phase for tap in step.taps)],
                         ["prepare", "reduce", "unscale", "norm", "clip", "update", "cast", "gather"])
        total = step.offsets["long"] + 5 * 1024
        flat, owned = np.zeros(total, F), np.zeros(total, int)
        for rank in range(3):
            tap, begin = step.tap("master", rank=rank, phase="update"), 0
            for first, last in tap.ranges:
                flat[first:last] = tap.values[begin:begin + last - first]
                owned[first:last] += 1
                begin += last - first
            self.assertEqual(begin, tap.values.size)
        self.assertEqual(set(owned), {1})
        for name, param in params.items():
            first = step.offsets[name]
            self.assertEqual(first % 1024, 0)
            same_bits(self, flat[first:first + param.size].reshape(param.shape), step.state["master"][name])
        self.assertEqual(step.tap("grad_norm").values[0], step.grad_norm)
        self.assertEqual(zproof.step(params, grads).taps, [])

    def test_an_overflow_is_skipped(self):
        params, grads = model()
        grads[1]["weight"][3, 4] = np.inf
        step = zproof.step(params, grads, world=2, loss_scaler=dict(kind="dynamic", log2_initial=4))
        self.assertTrue(step.skipped)
        self.assertTrue(np.isnan(step.grad_norm) and np.isnan(step.clip_coef))
        self.assertEqual((step.state["scaler"]["log2_scale"], step.state["applied_steps"]), (3, 0))
        same_bits(self, step.state["master"]["weight"], params["weight"])
        with one_sentence(self, FloatingPointError, "not finite"):
            zproof.step(params, grads, on_nonfinite="error", world=2)

    def test_gradients_of_narrow_formats(self):
        params, grads = model(micro_batches=2)
        for dtype in ("bf16", "fp16"):
            narrow = [{name: r.cast(grad, dtype) for name, grad in one.items()} for one in grads]
            wide = [{name: r.widen(grad, dtype) for name, grad in one.items()} for one in narrow]
            same_bits(self, zproof.step(params, narrow, grad_dtype=dtype, world=2).state["master"]["weight"],
                      zproof.step(params, wide).state["master"]["weight"])

    def test_param_groups(self):
        params, grads = model()
        groups = [dict(name="long", match="lo*", lr=0.005), dict(name="flat", vectors=True, weight_decay_mult=0)]
        half = [dict(name="weight", match=["weight"], lr_mult=0.5)]
        settings = dict(lr=0.01, weight_decay=0.1)
        plain = zproof.step(params, grads, **settings)
        seen = [zproof.step(params, grads, world=world, stage=stage, param_groups=half, **settings)
                for world, stage in ((1, 0), (3, 2), (2, 3))]
        self.assertEqual(len({tuple(bits_of(one)) for one in seen}), 1)
        slow = zproof.step(params, grads, lr=0.005, weight_decay=0.1)
        for name in params:
            want = slow if name == "weight" else plain
            same_bits(self, seen[0].state["master"][name], want.state["master"][name])
        self.assertNotEqual(bits_of(slow), bits_of(plain))
        without_decay = zproof.step(params, grads, lr=0.01, weight_decay=0)
        step = zproof.step(params, grads, world=2, stage=1, param_groups=groups, **settings)
        for name, want in (("bias", without_decay), ("long", slow), ("weight", plain)):  # long has one dimension too
            same_bits(self, step.state["master"][name], want.state["master"][name])

    def test_clip_groups(self):
        params, grads = model()
        groups = [dict(name="long", match="long", max_norm=0.5), dict(name="free", match=["bias"], max_norm=0.0)]
        step = zproof.step(params, grads, world=3, stage=2, max_norm=1.0, clip_groups=groups)
        scale = r.step_scalars("adamw", t=1, divisor=3)["inv_scale"]
        mean = {name: r.unscale(r.grad_sum([one[name] for one in grads]), scale)[0] for name in params}
        parts = {"long": (["long"], 0.5), "free": (["bias"], 0.0), None: (["weight", "empty", "scalar"], 1.0)}
        for group, (names, limit) in parts.items():
            norm = r.grad_norm([mean[name] for name in names])
            want = (norm, r.clip_coef(norm, limit))
            self.assertEqual((step.grad_norm, step.clip_coef) if group is None else step.clip_groups[group], want)
            for name in names:
                same_bits(self, step.state["exp_avg"][name], r.adamw(
                    r.clip(mean[name], want[1]), params[name], np.zeros_like(params[name]), np.zeros_like(params[name]),
                    t=1)["exp_avg"])
        self.assertEqual(zproof.step(params, grads).clip_groups, {})
        grads[0]["weight"][0, 0] = np.inf
        skipped = zproof.step(params, grads, max_norm=1.0, clip_groups=groups)
        self.assertTrue(np.isnan([skipped.grad_norm, *skipped.clip_groups["free"]]).all())

    def test_what_is_handed_over_stays(self):
        params, grads = model()
        copies = {name: param.copy() for name, param in params.items()}
        step = zproof.step(params, grads, world=2)
        before = [array.copy() for array in step.state["exp_avg"].values()]
        zproof.step(params, grads, world=2, state=step.state)
        for name, param in params.items():
            same_bits(self, param, copies[name])
        for array, copy in zip(step.state["exp_avg"].values(), before):
            same_bits(self, array, copy)

    def test_other_threads_go_on_meanwhile(self):
        params, grads = model()
        results = []
        threads = [threading.Thread(target=lambda: results.append(zproof.step(params, grads, world=2, stage=3)))
                   for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len({tuple(bits_of(one)) for one in results}), 1)


class Refusals(unittest.TestCase):  # the others: ../bad_input/python_rows.py
    def test_taps_that_are_not_there(self):
        params, grads = model(1)
        for part, words, name in [("taps=True", {}, "master"), ("did you mean master?", dict(taps=True), "mastre")]:
            with self.subTest(part), one_sentence(self, KeyError, part):
                zproof.step(params, grads, **words).tap(name)


if __name__ == "__main__":
    unittest.main()
