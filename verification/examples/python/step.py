"""A step of the sharded reference on three virtual ranks, and the buffers of one of them after each phase."""

import numpy as np

import zproof

rng = np.random.default_rng(0)
params = {"weight": rng.normal(size=(40, 30)).astype(np.float32), "bias": np.zeros(30, np.float32)}
grads = [{name: rng.normal(size=p.shape).astype(np.float32) for name, p in params.items()} for _ in range(4)]

steps = [zproof.step(params, grads, world=world, stage=stage, max_norm=1.0, taps=True)
         for world, stage in [(1, 0), (2, 1), (3, 2), (5, 3)]]
print("the same bits on 1, 2, 3 and 5 ranks:",
      all((step.params["weight"] == steps[0].params["weight"]).all() for step in steps))

tap = steps[2].tap("grad_sum", rank=1)
print(f"rank {tap.rank} of 3 held {tap.buffer} of {tap.ranges} after phase {tap.phase}")
print(f"norm {steps[2].grad_norm:.6f}, clipped by {steps[2].clip_coef:.6f}")

after = zproof.reference.adamw(np.array([2], np.float32), np.array([1], np.float32), np.zeros(1, np.float32),
                               np.zeros(1, np.float32), t=1)
print("one element by itself:", after["master"])
