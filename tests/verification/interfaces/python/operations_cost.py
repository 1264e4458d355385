"""Prints the cost of recording a training step of nanoGPT's smallest CPU model (4 layers of 128, batch 12, 64 characters):
JSON with milliseconds of processor time per step, the best of --rounds; operations and bytes of a step.

operations_cost.py [--rounds N] [--fused]
"""

import argparse
import json
import os
import resource
import tempfile

import torch
import torch.nn.functional as F

import zproof

BATCH, LENGTH, WIDTH, HEADS, LAYERS, WORDS = 12, 64, 128, 4, 4, 65


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.attention, self.projection = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (one.view(BATCH, LENGTH, HEADS, -1).transpose(1, 2)
                   for one in self.attention(self.norm1(x)).split(WIDTH, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(BATCH, LENGTH, WIDTH)
        x = x + self.projection(y)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(WORDS, WIDTH), torch.nn.Embedding(LENGTH, WIDTH)
        self.blocks = torch.nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, words):
        x = self.blocks(self.words(words) + self.places(torch.arange(LENGTH)))
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), words.flatten())


def seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--fused", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = Network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=args.fused)
    words = torch.randint(WORDS, (BATCH, LENGTH))

    def step():
        loss = model(words)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    def timed(steps):
        begin = seconds()
        for _ in range(steps):
            step()
        return (seconds() - begin) / steps

    timed(3)
    plain, recorded = [], []
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "cost.operations")
        for _ in range(args.rounds):
            plain.append(timed(4))
            with zproof.torch.operations(file) as recorder:
                recorded.append(timed(4))
        size = os.path.getsize(file)
    print(json.dumps({"plain_ms": round(min(plain) * 1e3, 1), "recorded_ms": round(min(recorded) * 1e3, 1),
                      "ratio": round(min(recorded) / min(plain), 2), "operations": recorder.count // 4,
                      "kilobytes": size // 4000}))


if __name__ == "__main__":
    main()
