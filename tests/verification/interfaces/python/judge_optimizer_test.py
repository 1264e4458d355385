"""judge_optimizer: optimizers of PyTorch as they are, and with mistakes in a subclass."""

import functools
import importlib
import json
import unittest

from support import one_sentence

import zproof

try:
    import torch
except ImportError:
    torch = None

MISTAKES = {
    "eps": "as if eps were inside the square root",
    "decay": "as if the weight decay came after the step",
    "step": "as if t were one more",
    "bias": "as if there were no bias correction",
    "stale": "as if master were made from exp_avg before the step",
    "tail": "they hold their previous values",
    "second": "only in elements 64 to 191",
    "maximum": "as if master were made from exp_avg_sq, not from its maximum",
}


def by_hand(wrong=""):
    """AdamW in PyTorch, with a mistake."""
    class ByHand(torch.optim.AdamW):
        @torch.no_grad()
        def step(self):
            for group in self.param_groups:
                for number, parameter in enumerate(group["params"]):
                    if not (wrong == "second" and number == 1):
                        self.update(group, parameter)

        def update(self, group, parameter):
            state = self.state[parameter]
            if not state:
                names = ["exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if group["amsgrad"] else [])]
                state.update({name: torch.zeros_like(parameter, dtype=torch.float32) for name in names})
                state["step"] = torch.tensor(0.0)
                if wrong == "first":
                    state["exp_avg"].copy_(parameter.grad)
            state["step"] += 1
            t = state["step"].item() + (wrong == "step")
            beta1, beta2 = group["betas"]
            numel = parameter.numel() // 4 * 4 if wrong == "tail" else parameter.numel()
            master, grad = parameter[:numel], parameter.grad[:numel]
            grad = -grad if group["maximize"] else grad
            exp_avg, exp_avg_sq = state["exp_avg"][:numel], state["exp_avg_sq"][:numel]
            decay = 1 - group["lr"] * group["weight_decay"]
            if wrong != "decay":
                master.mul_(decay)
            before = exp_avg.clone()
            exp_avg.mul_(beta1).add_(grad, alpha=1 - beta1)
            exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
            if group["amsgrad"]:
                largest = state["max_exp_avg_sq"][:numel]
                torch.maximum(largest, exp_avg_sq, out=largest)
                exp_avg_sq = exp_avg_sq if wrong == "maximum" else largest
            correction1, correction2 = (1, 1) if wrong == "bias" else (1 - beta1**t, 1 - beta2**t)
            if wrong == "eps":
                root = (exp_avg_sq + group["eps"]).sqrt() / correction2**0.5
            else:
                root = exp_avg_sq.sqrt() / correction2**0.5 + group["eps"]
            master.addcdiv_(before if wrong == "stale" else exp_avg, root, value=-group["lr"] / correction1)
            if wrong == "decay":
                master.mul_(decay)

    return ByHand


class OutOfPlace:
    """A wrapper whose optimizer gets a new state in every step, as some libraries write it."""

    def __init__(self, params, **words):
        self.optimizer = torch.optim.AdamW(params, **words)
        self.param_groups, self.state = self.optimizer.param_groups, self.optimizer.state

    def step(self):
        for state in self.state.values():
            state["exp_avg"] = state["exp_avg"].clone()
        self.optimizer.step()


@unittest.skipIf(torch is None, "torch is not here")
class Optimizers(unittest.TestCase):
    def passes(self, *arguments, held_to, **options):
        verdict = zproof.torch.judge_optimizer(*arguments, **options)
        self.assertTrue(verdict, verdict.text)
        self.assertRegex(verdict.results[0]["held_to"], held_to)
        return verdict

    def test_implementations_have_the_bits_of_their_dialects(self):
        single = "dialect:torch-cpu-single|any-order"  # its root is another on processors that are not AMD's
        for cls, plain, fused in ((torch.optim.AdamW, single, "dialect:torch-cpu-fused"),
                                  (torch.optim.SGD, "dialect:torch-sgd", "dialect:torch-sgd")):
            for options, held_to in (({"foreach": False}, plain), ({"foreach": True}, plain), ({"fused": True}, fused)):
                self.passes(cls, held_to=held_to, **options)
        self.passes(functools.partial(torch.optim.Adam, decoupled_weight_decay=True), held_to=single)

    def test_options_that_are_hyperparameters_choose_variants(self):
        verdict = self.passes(torch.optim.AdamW, held_to=".", amsgrad=True, betas=(0.9, 0.999))
        self.assertIn("betas=(0.9, 0.999)", verdict.results[0]["replay"])
        few, all_of_them = (sum(one["compared"] for one in self.passes(torch.optim.AdamW, held_to=".", **options).results)
                            for options in ({"amsgrad": True, "maximize": False}, {}))
        self.assertEqual(4 * few, all_of_them)
        self.passes(torch.optim.SGD, held_to="dialect:torch-sgd", nesterov=True)

        class WithTensor(torch.optim.AdamW):
            def step(self):
                assert self.param_groups[0]["lr"].dtype == torch.float64
                super().step()

        self.passes(WithTensor, held_to=".", lr=torch.tensor(1.0, dtype=torch.float64), amsgrad=False)

    def test_a_factory_and_results_that_are_new_tensors(self):
        self.passes(lambda params, **words: OutOfPlace(params, **words), held_to=".", amsgrad=False)

    def test_mistakes_fail(self):
        self.passes(by_hand(), held_to="any-order", maximize=False)
        for wrong, hint in MISTAKES.items():
            with self.subTest(wrong):
                verdict = zproof.torch.judge_optimizer(by_hand(wrong), maximize=False,
                                                       **({} if wrong == "maximum" else {"amsgrad": False}))
                self.assertEqual(verdict.status, "fail", verdict.text)
                self.assertIn(hint, verdict.results[0]["hint"])
                verdict = zproof.torch.judge_optimizer(by_hand(wrong), maximize=False, accept="any-order,fp32-powers",
                                                       **({} if wrong == "maximum" else {"amsgrad": False}))
                self.assertEqual(verdict.status, "fail", verdict.text)

    def test_a_first_step_from_other_moments_is_an_error(self):
        verdict = zproof.torch.judge_optimizer(by_hand("first"), amsgrad=False, maximize=False)
        self.assertEqual(verdict.status, "error", verdict.text)
        self.assertIn("is not that from zero moments (exp_avg differs)", verdict.results[0]["reason"])

    def test_bf16_parameters(self):
        class InPlace(torch.optim.AdamW):  # fp32 arithmetic, one rounding to bf16
            @torch.no_grad()
            def step(self):
                for group in self.param_groups:
                    for parameter in group["params"]:
                        state = self.state[parameter]
                        wide = torch.nn.Parameter(parameter.float())
                        wide.grad = parameter.grad.float()
                        inner = torch.optim.AdamW([wide], **{name: group[name] for name in (
                            "lr", "betas", "eps", "weight_decay", "amsgrad", "maximize")})
                        if state:
                            inner.state[wide] = state
                        inner.step()
                        state.update(inner.state[wide])
                        parameter.copy_(wide)

        self.passes(InPlace, held_to="any-order", dtype="bf16")

    def test_a_compiled_step(self):
        sgd = self.passes(torch.optim.SGD, held_to="any-order|dialect:contract", compile=True, momentum=0.9,
                          nesterov=False, maximize=False)
        self.assertEqual(sgd.status, "pass")
        self.assertNotIn("powers", sgd.text)

    def test_a_compiled_step_has_powers_of_beta_in_fp32(self):
        plain = {"compile": True, "amsgrad": False, "maximize": False}
        for cls in (torch.optim.AdamW, torch.optim.Adam):
            verdict = self.passes(cls, held_to="^any-order,fp32-powers$", **plain)
            self.assertIn("note: powers of beta in fp32 are accepted", verdict.text)
            self.assertGreater(json.loads(verdict.json)["cases"][0]["judged"]["powers"], 1000)
        strict = zproof.torch.judge_optimizer(cls, accept="any-order", **plain)
        self.assertEqual(strict.status, "fail", strict.text)
        self.assertIn("from a power in fp32", strict.results[0]["hint"])

        class Faster(torch.optim.AdamW):
            def step(self):
                rates = [group["lr"] for group in self.param_groups]
                for group in self.param_groups:
                    group["lr"] *= 1.0001
                super().step()
                for group, rate in zip(self.param_groups, rates):
                    group["lr"] = rate

        verdict = zproof.torch.judge_optimizer(Faster, **plain)
        self.assertEqual(verdict.status, "fail", verdict.text)
        self.assertIn("in no legal order", verdict.results[0]["order"])

    def test_refused_in_one_sentence(self):
        class WithMore(torch.optim.AdamW):
            def step(self):
                super().step()
                for state in self.state.values():
                    state["ema"] = state["exp_avg"].clone()

        judge, optim = zproof.torch.judge_optimizer, torch.optim
        for kind, words, arguments, options in (
                (ValueError, ("RMSprop", "Adam, AdamW, SGD and Lion"), [optim.RMSprop], {}),
                (ValueError, ("keeps exp_avg in bfloat16",), [optim.AdamW], {"dtype": "bf16"}),
                (ValueError, ("keeps no exp_avg_sq", "exp_inf",), [optim.Adamax], {"op": "adamw"}),
                (ValueError, ("keeps ema in its state",), [WithMore], {}),
                (ValueError, ("capturable=True", "AssertionError"), [optim.AdamW], {"capturable": True}),
                (ValueError, ("unexpected keyword argument 'fussed'",), [optim.AdamW], {"fussed": True}),
                (ValueError, ("weight_decay is 0.3", "0.01, 0.7"), [optim.AdamW], {"weight_decay": 0.3}),
                (ValueError, ("op is 'lamb'",), [optim.AdamW, "lamb"], {}),
                (ValueError, ("only supports 2D", "zeroproof judge-run"), [optim.Muon], {}),
                (ValueError, ("dtype is 'fp16'",), [optim.AdamW], {"dtype": "fp16"}),
                (TypeError, ("the optimizer is a AdamW",), [optim.AdamW([torch.nn.Parameter(torch.ones(1))])], {})):
            with one_sentence(self, kind, *words):
                judge(*arguments, **options)
        threads = torch.get_num_threads()
        self.assertEqual(judge(optim.SGD, fills="zero").exit_code, 0)
        self.assertEqual(torch.get_num_threads(), threads)


class WithoutTorch(unittest.TestCase):
    @unittest.skipIf(torch is not None, "torch is here")
    def test_says_so(self):
        with one_sentence(self, ImportError, "torch is not installed"):
            importlib.import_module("zproof.torch").judge_optimizer(object)


if __name__ == "__main__":
    unittest.main()
