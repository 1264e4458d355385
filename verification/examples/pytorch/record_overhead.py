#!/usr/bin/env python3
"""Measures what recording costs: a step of a small GPT on one CPU thread, without a recorder and with one.

python3 record_overhead.py [--steps 10] [--rounds 5]
"""

import argparse
import contextlib
import pathlib
import tempfile
import time

import torch
import zproof
from torch import nn

VOCABULARY, WIDTH, LAYERS, LENGTH, BATCH = 256, 128, 4, 64, 16


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.0, "gelu", batch_first=True,
                                                               norm_first=True) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions.weight
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        for block in self.blocks:
            x = block(x, mask, is_causal=True)
        return self.norm(x) @ self.tokens.weight.T


def train(model, optimizer, steps):
    """Wall and CPU seconds of a step."""
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(steps):
        ids = torch.randint(VOCABULARY, (BATCH, LENGTH + 1))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return (time.perf_counter() - wall) / steps, (time.process_time() - cpu) / steps


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    print(f"{sum(parameter.numel() for parameter in model.parameters()):,} parameters, PyTorch {torch.__version__}")
    train(model, optimizer, 2)
    kinds = {"not recorded": None, "recorded": {}, "limit=8192": {"limit": 8192}, "every=10": {"every": 10}}
    best = {}
    for _ in range(given.rounds):  # in turn, so that other load on the machine meets all of them
        for name, words in kinds.items():
            with tempfile.TemporaryDirectory() as folder:
                recorder = contextlib.nullcontext() if words is None else zproof.torch.record(optimizer, model, folder, **words)
                with recorder:
                    seconds = train(model, optimizer, given.steps)
                size = sum(path.stat().st_size for path in pathlib.Path(folder).iterdir()) / given.steps
            best[name] = min(best.get(name, (1e9, 1e9, 0)), (seconds[1], seconds[0], size))
    for name, (cpu, wall, size) in best.items():
        print(f"{name:14} {1e3 * wall:7.1f} ms wall  {1e3 * cpu:7.1f} ms CPU ({cpu / best['not recorded'][0]:.2f}x)  "
              f"{size / 1e6:6.2f} MB a step")


if __name__ == "__main__":
    main()
