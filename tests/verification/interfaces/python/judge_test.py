"""A callable under the judge: passes, differences with their places, and its parameters."""

import functools
import json
import pathlib
import runpy
import unittest
import warnings
import xml.dom.minidom

import numpy as np
from support import F, adamw, judged

import zproof

ROOT = pathlib.Path(__file__).resolve().parents[4]


class Verdicts(unittest.TestCase):
    def failed(self, fn, *parts, status="fail", op="adamw", **words):
        verdict = judged(fn, op, **words)
        self.assertEqual(verdict.status, status, verdict.text)
        self.assertFalse(verdict)
        for part in parts:
            self.assertIn(part, verdict.text)
        return verdict

    def test_the_contract_passes(self):
        verdict = zproof.judge(adamw, "adamw")
        self.assertTrue(verdict, verdict.text)
        self.assertEqual((verdict.status, verdict.exit_code, len(verdict.results)), ("pass", 0, 7))
        self.assertGreater(sum(one["compared"] for one in verdict.results), 7_000_000)
        self.assertIn("9 of 12 variants were not judged: adamw takes no amsgrad, maximize", verdict.text)
        self.assertEqual(json.loads(verdict.json)["schema"], "zeroproof-report/2")
        xml.dom.minidom.parseString(verdict.junit())
        xml.dom.minidom.parseString(verdict.html())

    def test_the_operations_of_muon(self):
        muon = runpy.run_path(str(ROOT / "verification/examples/python/muon.py"))
        for name, op in (("matrix_product", "matrix_product"), ("newton_schulz", "newton_schulz")):
            verdict = zproof.judge(muon[name], op, fills="training")
            self.assertTrue(verdict, verdict.text)
            self.assertIn("variants were not judged: " + name + " takes no ", verdict.text)
        for op in ("muon_momentum", "muon_update"):
            verdict = zproof.judge(muon[op], op)
            self.assertTrue(verdict, verdict.text)
            self.assertEqual(len(verdict.results), 7)
        lerp = zproof.judge(muon["muon_momentum_as_lerp"], "muon_momentum", accept="any-order")
        self.assertTrue(lerp, lerp.text)
        self.assertFalse(zproof.judge(muon["muon_momentum_as_lerp"], "muon_momentum", fills="training"))
        self.failed(muon["newton_schulz_of_rows"], "orthogonal", op="newton_schulz")
        self.failed(muon["muon_update_decays_last"], "in no legal order", op="muon_update", accept="any-order")
        # Another order of the products: judged step by step, which takes a function with any number of steps.
        newton_schulz = muon["newton_schulz"]
        newton_schulz.__globals__["product"] = lambda x, y: x @ y.T
        legal = zproof.judge(newton_schulz, "newton_schulz", fills="training", accept="any-order")
        self.assertTrue(legal, legal.text)
        self.assertIn("by bound, 0 by class, 0 not at all", legal.text)
        five = zproof.judge(lambda matrix, eps: newton_schulz(matrix, 5, eps), "newton_schulz", fills="training",
                            accept="any-order")
        self.assertEqual(five.status, "mistrusted", five.text)
        with self.assertRaisesRegex(ValueError, "did you mean muon_update"):
            zproof.judge(muon["muon_update"], "muon_updat")
        with self.assertRaisesRegex(ValueError, "'muon' is no operation"):
            zproof.judge(muon["muon_update"], "muon")

    def test_numpy_does_not_warn_about_infinities_of_the_judge(self):
        def adamw(grad, master, exp_avg, exp_avg_sq):
            exp_avg_sq[...] = np.sqrt(exp_avg_sq - grad * grad) / grad

        with warnings.catch_warnings(record=True) as shown, np.errstate(all="warn"):
            warnings.simplefilter("always")
            self.failed(adamw, "differs from the reference", fills="special")
        self.assertEqual([], [str(one.message) for one in shown])

    def test_one_wrong_element_is_found_and_placed(self):
        def tail(grad, master, exp_avg, exp_avg_sq, *, scalars, beta1, beta2):
            old = master[-3:].copy()
            adamw(grad, master, exp_avg, exp_avg_sq, scalars=scalars, beta1=beta1, beta2=beta2)
            if master.size == 1023:
                master[-3:] = old

        verdict = self.failed(tail, "master[1020] differs", "numel 1023", "they hold their previous values",
                              "1023 mod 4 = 3", "replay    zproof.judge(tail, op='adamw'")
        self.assertEqual(verdict.results[0]["id"], "op/adamw_update/python/tail/fill:training")

    def test_what_is_not_written_is_nan(self):
        def nothing(grad_sum, unscaled_grad):
            pass

        self.failed(nothing, "found_inf[0] differs", "got 0xffffffff", op="unscale", fills="ties")
        self.failed(lambda source, target: None, "target[0] differs", "not written", op="cast_to_fp16")

    def test_results_may_be_returned(self):
        def unscale(grad_sum, inv_scale):
            with np.errstate(all="ignore"):
                out = grad_sum * F(inv_scale)
            return out, np.array([not np.isfinite(out).all()], np.uint32)

        self.assertTrue(judged(unscale, "unscale", fills="special"))
        self.assertTrue(judged(lambda grad_sum, inv_scale: dict(zip(
            ("found_inf", "unscaled_grad"), unscale(grad_sum, inv_scale)[::-1])), "unscale"))
        self.failed(lambda grad_sum: (grad_sum, 1, 2), "it returned 3 arrays", status="error", op="unscale")
        self.failed(lambda grad_sum: {"unscaled": grad_sum}, "did you mean unscaled_grad", status="error", op="unscale")
        self.failed(lambda grad_sum: grad_sum.astype(np.float64), "returned as float64", status="error", op="unscale")
        self.failed(lambda grad_sum: np.zeros(5, F), "returned with shape (5,)", status="error", op="unscale")

    def test_settings_by_their_names(self):
        seen = {}

        def spy(grad, master, betas, step, t, lr, weight_decay, bias_correction, amsgrad, settings, num_threads,
                scalars):
            seen.update(locals())

        judged(spy)
        self.assertEqual(seen["betas"], (seen["settings"]["beta1"], seen["settings"]["beta2"]))
        self.assertEqual(seen["step"], seen["t"])
        self.assertIs(type(seen["amsgrad"]), bool)
        self.assertEqual(seen["scalars"].step_size, seen["settings"]["scalar.step_size"])
        everything = {}
        judged(lambda **words: everything.update(words))
        self.assertEqual(set(everything) - {"num_threads"}, set("""grad master exp_avg exp_avg_sq max_exp_avg_sq t lr beta1
            beta2 eps weight_decay momentum dampening bias_correction amsgrad nesterov maximize""".split()))

    def test_all_variants_with_all_options(self):
        def full(grad, master, exp_avg, exp_avg_sq, max_exp_avg_sq, *, scalars, beta1, beta2, amsgrad, maximize):
            with np.errstate(all="ignore"):
                grad = -grad if maximize else grad
                exp_avg[...] = F(beta1) * exp_avg + F(scalars.one_minus_beta1) * grad
                exp_avg_sq[...] = F(beta2) * exp_avg_sq + F(scalars.one_minus_beta2) * (grad * grad)
                largest = exp_avg_sq
                if amsgrad:
                    max_exp_avg_sq[...] = np.where(max_exp_avg_sq >= exp_avg_sq, max_exp_avg_sq, exp_avg_sq)
                    largest = max_exp_avg_sq
                d = np.sqrt(largest) / F(scalars.sqrt_bias_correction2) + F(scalars.eps)
                u = F(scalars.step_size) * (exp_avg / d)
                master[...] = master - (u + F(scalars.lr_weight_decay) * master if scalars.has_decay else u)

        verdict = zproof.judge(full, "adamw", fills=["training", "special"])
        self.assertTrue(verdict, verdict.text)
        self.assertEqual(verdict.notes, ())

    def test_parameters_of_bf16(self):
        def rounded(grad, master, exp_avg, exp_avg_sq, param, *, scalars, beta1, beta2):
            adamw(grad, master, exp_avg, exp_avg_sq, scalars=scalars, beta1=beta1, beta2=beta2)
            param.view(np.uint16)[...] = zproof_cast(master)

        def zproof_cast(values):  # to nearest even; a NaN keeps its sign and is quiet
            bits = values.view(np.uint32).astype(np.uint64)
            near = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
            return np.where(np.isnan(values), np.uint16(0x7FC0), near)

        def truncated(grad, master, exp_avg, exp_avg_sq, param, *, scalars, beta1, beta2):
            adamw(grad, master, exp_avg, exp_avg_sq, scalars=scalars, beta1=beta1, beta2=beta2)
            param.view(np.uint16)[...] = (master.view(np.uint32) >> 16).astype(np.uint16)

        verdict = zproof.judge(rounded, "adamw", "bf16", fills=["training", "ties"])
        self.assertTrue(verdict, verdict.text)
        self.assertIn("op/adamw_update_to_bf16/python/rounded", verdict.results[0]["id"])
        self.failed(truncated, "param[", dtype="bf16")
        self.failed(truncated, "param[", "and has to be", dtype="bf16", accept="any-order")

    def test_parameters_of_bf16_without_a_master(self):
        example = runpy.run_path(str(ROOT / "verification/examples/python/bf16_updates.py"))
        op = "adamw_update_bf16"
        right = example[op]
        verdict = zproof.judge(right, op)
        self.assertTrue(verdict, verdict.text)
        self.assertEqual(len(verdict.results), 7)
        self.assertIn("op/adamw_update_bf16/python/adamw_update_bf16", verdict.results[0]["id"])
        for wrong in (f"{op}_truncated", f"{op}_decay_rounded"):
            self.failed(example[wrong], "master[", op=op)
            self.failed(example[wrong], "in no legal order", op=op, accept="any-order")

        def other(grad, master, exp_avg, exp_avg_sq, *, scalars):  # a moment in fp64; the step before the decay
            with np.errstate(all="ignore"):
                g, old, before = example["widened"](grad), exp_avg.astype(np.float64), example["widened"](master)
                example["moved"](grad, exp_avg, exp_avg_sq, scalars)
                exp_avg[...] = scalars.beta1 * old + scalars.one_minus_beta1 * g
                d = np.sqrt(exp_avg_sq) / F(scalars.sqrt_bias_correction2) + F(scalars.eps)
                after = before - F(scalars.step_size) * (exp_avg / d)
                after = after - F(scalars.lr_weight_decay) * before if scalars.has_decay else after
                master.view(np.uint16)[...] = example["rounded"](after)

        self.failed(other, "another order of the same formula", op=op)
        verdict = judged(other, op, accept="any-order")
        self.assertTrue(verdict, verdict.text)
        with self.assertRaisesRegex(ValueError, "adamw_update_bf16 does not go with dtype bf16"):
            zproof.judge(right, op, "bf16")

    def test_sgd_and_lion_of_bf16_parameters(self):
        example = runpy.run_path(str(ROOT / "verification/examples/python/bf16_updates.py"))
        for op in ("sgd_update_bf16", "lion_update_bf16"):
            right = example[op]
            verdict = zproof.judge(right, op)
            self.assertTrue(verdict, verdict.text)
            self.assertEqual(len(verdict.results), 7)
            truncated = functools.partial(right, cast=example["truncated"])
            self.failed(truncated, "master[", "in no legal order", op=op, accept="any-order")

    def test_another_order_of_the_same_formula(self):
        def other(grad, master, exp_avg, exp_avg_sq, *, scalars, beta1, beta2):
            exp_avg[...] = F(beta1) * exp_avg + F(scalars.one_minus_beta1) * grad
            exp_avg_sq[...] = F(beta2) * exp_avg_sq + F(scalars.one_minus_beta2) * grad * grad
            if scalars.has_decay:
                master *= F(1) - F(scalars.lr_weight_decay)
            d = np.sqrt(exp_avg_sq) / F(scalars.sqrt_bias_correction2) + F(scalars.eps)
            master -= F(scalars.step_size) * (exp_avg / d)

        self.failed(other, "another order of the same formula")
        verdict = judged(other, accept="any-order")
        self.assertTrue(verdict, verdict.text)
        self.failed(lambda grad, master, exp_avg, exp_avg_sq, *, scalars, beta1, beta2: other(
            grad, master, exp_avg, exp_avg_sq, scalars=scalars, beta1=beta1 - 1e-3, beta2=beta2), "in no legal order",
            accept="any-order")
        strict, powers = "any-order", "any-order,fp32-powers"

        def by_powers(grad, master, exp_avg, exp_avg_sq, *, t, lr, eps, weight_decay, beta1, beta2, bias_correction,
                      later=0, in_root=False):
            c1, c2 = (F(1) - F(beta) ** F(t + later) if bias_correction else F(1) for beta in (beta1, beta2))
            exp_avg[...] = F(beta1) * exp_avg + (F(1) - F(beta1)) * grad
            exp_avg_sq[...] = F(beta2) * exp_avg_sq + (F(1) - F(beta2)) * grad * grad
            master *= F(1 - lr * weight_decay)
            root = np.sqrt(exp_avg_sq + F(eps)) / np.sqrt(c2) if in_root else np.sqrt(exp_avg_sq) / np.sqrt(c2) + F(eps)
            master -= F(lr) / c1 * (exp_avg / root)

        self.failed(by_powers, "from a power in fp32", accept=strict)
        verdict = judged(by_powers, accept=powers, name="powers")
        self.assertTrue(verdict, verdict.text)
        self.assertEqual(verdict.results[0]["held_to"], powers)
        self.assertGreater(json.loads(verdict.json)["cases"][0]["judged"]["powers"], 1000)
        for text in (verdict.text, verdict.html()):
            self.assertIn(" by powers of beta in fp32, ", text)
        self.failed(functools.partial(by_powers, later=1), "in no legal order", accept=powers)
        self.failed(functools.partial(by_powers, in_root=True), "in no legal order", accept=powers)
        self.failed(other, "differs from torch-cpu-fused", accept="dialect:torch-cpu-fused")
        skipped = judged(lambda grad: None, "clip_value", accept="dialect:torch-cpu-fused")
        self.assertEqual((skipped.status, skipped.exit_code), ("skipped", 4))

    def test_a_lost_nan_or_infinity_is_in_no_legal_order(self):
        def changed(before=lambda g: g, after=lambda x: x):
            def lost(grad, master, exp_avg, exp_avg_sq, *, scalars, beta1, beta2):
                adamw(before(grad), master, exp_avg, exp_avg_sq, scalars=scalars, beta1=beta1, beta2=beta2)
                for result in (master, exp_avg, exp_avg_sq):
                    result[...] = after(result)
            return lost

        most = np.finfo(F).max
        words = {"fills": "special", "accept": "any-order"}
        for lost, part in [
            (changed(before=np.nan_to_num), "and has to be NaN"),
            (changed(before=lambda g: np.fmin(np.fmax(g, -most), most)), "and has to be NaN"),
            (changed(after=np.nan_to_num), "and has to be NaN"),
            (changed(after=lambda x: np.clip(x, -most, most)), "and has to be inf"),
        ]:
            verdict = self.failed(lost, part, "has a value that no legal order produces", **words)
            self.assertEqual(verdict.exit_code, 1)
        verdict = judged(adamw, **words)
        self.assertTrue(verdict, verdict.text)
        counts = json.loads(verdict.json)["cases"][0]["judged"]
        self.assertEqual(counts, {"bits": verdict.results[0]["compared"], "bound": 0, "powers": 0, "classes": 0,
                                  "nothing": 0})
        self.assertIn("by bits, 0 by bound, 0 by class, 0 not at all", verdict.text)
        self.assertIn("by bits, 0 by bound, 0 by class, 0 not at all", verdict.html())

    def test_reports_say_what_results_are_held_to(self):
        for words, held_to, title in [
            ({}, "contract", "python adamw against the reference"),
            ({"accept": "any-order"}, "any-order", "python adamw against any legal order"),
            ({"accept": "any-order,fp32-powers"}, "any-order,fp32-powers", "legal order, with powers of beta in fp32"),
            ({"accept": "dialect:torch-cpu-single"}, "dialect:torch-cpu-single", "adamw against the dialect torch-cpu-single"),
            ({"accept": "dialect:torch-cpu-fused", "dtype": "bf16"}, "dialect:torch-cpu-fused", "the dialect torch-cpu"),
        ]:
            verdict = judged(adamw, **words)
            self.assertEqual([case["held_to"] for case in json.loads(verdict.json)["cases"]], [held_to])
            self.assertEqual(verdict.results[0]["held_to"], held_to)
            self.assertIn(title, verdict.text)
        # a cast has one result, under every rule; the p-norm has a bound and no bits
        self.assertEqual(judged(lambda source: None, "cast_to_bf16", accept="any-order").results[0]["held_to"], "contract")
        self.assertEqual(judged(lambda grad: None, "grad_norm_p").results[0]["held_to"], "bound")

    def test_the_json_says_what_was_left_out(self):
        left_out = ["9 of 12 variants were not judged: adamw takes no amsgrad, maximize"]
        second = ["adamw also got inputs of a second seed, 2"]
        self.assertEqual(json.loads(judged(adamw, second_seed=2).json)["notes"], left_out + second)
        clip = judged(lambda grad: None, "clip_value", name="clip", second_seed=2)
        self.assertEqual(json.loads(clip.json)["notes"], ["clip also got inputs of a second seed, 2"])

    def test_the_bits_of_the_contract_are_a_legal_order_for_every_dialect(self):
        for op, dialect in (("adamw", "torch-cpu-fused"), ("adamw", "torch-cpu-single"),
                            ("adamw", "deepspeed-cpu-adam-avx512")):
            verdict = judged(adamw, op, fills="all", accept="dialect:" + dialect)
            self.assertEqual(verdict.status, "fail")
            for one in verdict.results:
                self.assertNotIn("beyond their bound", one["order"], one["id"])
                self.assertNotIn("has to be", one["order"], one["id"])

    def test_what_it_raises_is_a_verdict(self):
        def raises(grad):
            raise KeyError("there is\nno such thing")

        verdict = self.failed(raises, "it raised KeyError", "judge_test.py, line", "in raises", status="error")
        self.assertEqual(verdict.exit_code, 9)
        self.assertNotIn("\n", verdict.results[0]["reason"])
        self.failed(lambda grad: exit(0), "it raised SystemExit", status="error")

    def test_interrupts_are_not_its_own(self):
        def interrupted(grad):
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            zproof.judge(interrupted, "adamw")

    def test_the_seeds_are_those_of_the_inputs(self):
        def inputs(**seeds):
            seen = []

            def step(grad, master, exp_avg, exp_avg_sq, *, scalars, beta1, beta2):
                seen.append(grad.tobytes())
                adamw(grad, master, exp_avg, exp_avg_sq, scalars=scalars, beta1=beta1, beta2=beta2)

            self.assertTrue(judged(step, **seeds))
            return seen[:len(seen) // 2], seen[len(seen) // 2:]

        first, second = inputs(second_seed=7)
        self.assertEqual(inputs(second_seed=7), (first, second))
        self.assertEqual(inputs(second_seed=8)[0], first)
        self.assertNotEqual(inputs(second_seed=8)[1], second)
        self.assertNotEqual(inputs()[1], inputs()[1])  # drawn
        self.assertEqual(inputs(seed=7)[0], second)


if __name__ == "__main__":
    unittest.main()
