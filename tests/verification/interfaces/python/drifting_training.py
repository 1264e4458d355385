"""A small training for tests of zproof.torch.operations, with one change at a time.

drifting_training.py FOLDER NAME...    writes FOLDER/NAME.operations of each of the trainings in CHANGES, in this process
"""

import contextlib
import math
import sys

import numpy as np
import torch
import torch.nn.functional as F

STEPS, BATCH, LENGTH, WIDTH, WORDS = 2, 4, 32, 64, 65
ONE_ULP = 1 + 2.0**-23


class Block(torch.nn.Module):
    def __init__(self, change):
        super().__init__()
        self.change = change
        self.norm1 = torch.nn.LayerNorm(WIDTH)
        self.attention = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.projection = torch.nn.Linear(WIDTH, WIDTH)
        self.norm2 = torch.nn.LayerNorm(WIDTH)
        self.up = torch.nn.Linear(WIDTH, 4 * WIDTH)
        self.down = torch.nn.Linear(4 * WIDTH, WIDTH)

    def normed(self, x):
        if self.change == "layer norm by hand":
            return (x - x.mean(-1, keepdim=True)) * torch.rsqrt(x.var(-1, unbiased=False, keepdim=True) + 1e-5) \
                * self.norm1.weight + self.norm1.bias
        return self.norm1(x)

    def projected(self, y):
        if self.change == "mm and add for addmm":
            return torch.mm(y.reshape(-1, WIDTH), self.projection.weight.t()).view(y.shape) + self.projection.bias
        if self.change == "sum in another order":
            return (self.projection.weight * y.unsqueeze(-2)).sum(-1) + self.projection.bias
        return self.projection(y)

    def attended(self, q, k, v):
        if self.change == "attention by hand":
            mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
            scores = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).masked_fill(~mask, -math.inf)
            return scores.softmax(-1) @ v
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def forward(self, x):
        if self.change == "one ulp in forward":
            x = x * ONE_ULP
        if self.change == "extra random numbers":
            torch.rand(3)
        q, k, v = self.attention(self.normed(x)).split(WIDTH, dim=2)
        q, k, v = (one.view(BATCH, LENGTH, 4, WIDTH // 4).transpose(1, 2) for one in (q, k, v))
        y = self.attended(q, k, v).transpose(1, 2).contiguous().view(BATCH, LENGTH, WIDTH)
        x = x + F.dropout(self.projected(y), 0.2 if self.change == "dropout" else 0.1)
        hidden = self.up(self.norm2(x))
        return x + self.down(F.gelu(hidden, approximate="tanh" if self.change == "gelu" else "none"))


class Network(torch.nn.Module):
    def __init__(self, change):
        super().__init__()
        self.change = change
        self.words = torch.nn.Embedding(WORDS, WIDTH)
        self.mixing = torch.nn.Conv1d(WIDTH, WIDTH, 3, padding=1)
        self.blocks = torch.nn.ModuleList(Block(change if number == 0 else "") for number in range(2))
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.head = torch.nn.Linear(WIDTH, WORDS)

    def forward(self, words, targets):
        x = self.words(words)
        x = x + F.elu(self.mixing(x.transpose(1, 2)).transpose(1, 2))
        for block in self.blocks:
            x = block(x)
        losses = F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten(), reduction="none")
        if self.change == "sum in fp64":
            return losses.double().mean().float()
        return losses.mean()


@contextlib.contextmanager
def settings(change):
    """A setting of PyTorch, until the end."""
    with contextlib.ExitStack() as stack:
        stack.callback(torch.set_num_threads, 1)
        torch.set_num_threads(2 if change == "threads" else 1)
        if change == "oneDNN off":
            stack.enter_context(torch.backends.mkldnn.flags(enabled=False))
        if change == "flushed denormals":
            stack.callback(torch.set_flush_denormal, False)
            torch.set_flush_denormal(True)
        if change == "flash attention off":
            stack.callback(torch.backends.cuda.enable_flash_sdp, True)
            torch.backends.cuda.enable_flash_sdp(False)
        if change == "autocast":
            stack.enter_context(torch.autocast("cpu", dtype=torch.bfloat16))
        if change == "matmul precision":
            stack.callback(torch.set_float32_matmul_precision, "highest")
            torch.set_float32_matmul_precision("medium")
        yield


def batches(change):
    words = np.random.default_rng(5).integers(0, WORDS, (STEPS + 1, BATCH, LENGTH + 1))
    order = [1, 0, 2] if change == "data order" else range(STEPS + 1)
    if change == "other data":
        words[1, 2, 3] = (words[1, 2, 3] + 1) % WORDS
    return [torch.from_numpy(words[number].copy()) for number in order]


def train(file, change=""):
    """Two steps, recorded; returns the losses."""
    import zproof

    torch.manual_seed(2 if change == "seed" else 1)
    if change == "created inside":
        with zproof.torch.operations(file):
            model = Network(change)
            loss = model(*(part[:, :LENGTH] for part in batches(change)[:2]))
            loss.backward()
        return [loss.item()]
    model = Network(change)
    options = {"fused optimizer": {"fused": True}, "foreach optimizer": {"foreach": True}}.get(change, {"foreach": False})
    lr = 1e-3 * (ONE_ULP if change == "one ulp in the optimizer" else 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, **options)
    if change == "one ulp in backward":
        model.blocks[1].up.weight.register_hook(lambda grad: grad * ONE_ULP)
    if change == "initial parameter":
        with torch.no_grad():
            model.head.bias[3] += 0.5
    if change == "deterministic algorithms":
        torch.use_deterministic_algorithms(True)
    data, losses = batches(change), []
    with settings(change), zproof.torch.operations(file):
        tiny = torch.full((16,), 1e-38) * 0.1  # denormals
        for step in range(STEPS):
            words = data[step]
            loss = model(words[:, :-1], words[:, 1:]) + tiny.sum()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.9 if change == "clip limit" else 1.0)
            if change == "numpy writes a parameter" and step == 1:
                model.norm.weight.detach().numpy()[5] *= np.float32(ONE_ULP)
            optimizer.step()
            losses.append(loss.item())
    torch.use_deterministic_algorithms(False)
    return losses


def scatter(file, change):
    """Atomic additions of two threads, in one order with deterministic algorithms."""
    import zproof

    torch.manual_seed(1)
    values, rows = torch.randn(1 << 22), torch.randint(7, (1 << 22,))
    torch.set_num_threads(2)
    torch.use_deterministic_algorithms(change)
    try:
        with zproof.torch.operations(file):
            torch.zeros(7).index_put_((rows,), values, accumulate=True)
    finally:
        torch.use_deterministic_algorithms(False)
        torch.set_num_threads(1)


def main(folder, names):
    for name in names:
        file = f"{folder}/{name.replace(' ', '-')}.operations"
        if name.startswith("scatter"):
            scatter(file, "deterministic" in name)
        else:
            train(file, "" if name in ("old", "again") else name)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
