"""Inputs of the functions."""

import numpy as np


def gradients(seed, count, numel, scale=1.0):
    """fp32 arrays of both signs over many binades."""
    random = np.random.RandomState(seed)
    return [(random.standard_normal(numel) * scale * 2.0**random.randint(-20, 8, numel)).astype(np.float32)
            for _ in range(count)]
