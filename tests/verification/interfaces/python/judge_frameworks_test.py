"""Callables on tensors of a framework under the judge, and the reference on them."""

import unittest

import numpy as np
from support import adamw, judged, one_sentence

import zproof


class Frameworks(unittest.TestCase):
    def test_torch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("torch is not here")

        def step(grad, master, exp_avg, exp_avg_sq, param, *, scalars, beta1, beta2, sqrt=torch.sqrt):
            exp_avg.mul_(beta1).add_(grad * scalars.one_minus_beta1)
            exp_avg_sq.mul_(beta2).add_((grad * grad) * scalars.one_minus_beta2)
            update = exp_avg / (sqrt(exp_avg_sq) / scalars.sqrt_bias_correction2 + scalars.eps) * scalars.step_size
            master.sub_(update + master * scalars.lr_weight_decay if scalars.has_decay else update)
            param.copy_(master)

        def correctly_rounded(grad, master, exp_avg, exp_avg_sq, param, *, scalars, beta1, beta2):
            step(grad, master, exp_avg, exp_avg_sq, param, scalars=scalars, beta1=beta1, beta2=beta2,
                 sqrt=lambda x: torch.from_numpy(np.sqrt(x.numpy())))

        # some builds of PyTorch take square roots that are not the nearest numbers
        for fn, accept in ((step, "any-order"), (correctly_rounded, "bits")):
            verdict = judged(fn, dtype="bf16", framework="torch", accept=accept)
            self.assertTrue(verdict, verdict.text)
        seen = {}
        judged(lambda param, grad: seen.update(param=param.dtype, grad=grad.dtype), dtype="bf16", framework="torch")
        self.assertEqual(seen, {"param": torch.bfloat16, "grad": torch.float32})
        self.assertIn("framework='torch'", judged(lambda grad: None, framework="torch").text)
        with one_sentence(self, ValueError, "cannot be put on device"):
            judged(step, framework="torch", device="nowhere")

    def test_the_reference_on_tensors(self):
        try:
            import torch
        except ImportError:
            self.skipTest("torch is not here")
        r = zproof.reference
        widened = r.widen(torch.tensor([1.5, -2], dtype=torch.bfloat16), "bf16")
        self.assertEqual(widened.tolist(), [1.5, -2])
        self.assertEqual(r.widen(torch.tensor([448.0]).to(torch.float8_e4m3fn), "e4m3").tolist(), [448])
        tensors = [torch.ones(5) for _ in range(4)]
        new = r.adamw(*tensors, t=1)
        r.adamw(*tensors, t=1, inplace=True)
        self.assertEqual(tensors[1].tolist(), new["master"].tolist())
        self.assertEqual(torch.from_dlpack(new["master"]).tolist(), new["master"].tolist())
        leaf = torch.ones(5, requires_grad=True)  # as parameters are when an optimizer writes them
        r.sgd(torch.ones(5), leaf, t=1, lr=0.5, inplace=True)
        self.assertEqual(leaf.tolist(), [0.5] * 5)
        with one_sentence(self, ValueError, "not contiguous"):
            r.adamw(torch.ones(5, 2)[:, 0], *tensors[1:], t=1)

    def test_without_torch(self):
        try:
            import torch  # noqa: F401
        except ImportError:
            with one_sentence(self, ImportError, "torch is not installed"):
                judged(adamw, framework="torch")


if __name__ == "__main__":
    unittest.main()
