#!/usr/bin/env python3
"""transformer_engine_python_test.py TOOL: the scales that TransformerEngine's Python makes, and this project's.

TransformerEngine cannot be imported without its compiled parts. Its pure Python is read from its sources, function
by function, and run on PyTorch (no GPU): delayed scaling (pytorch/quantization.py) and the reference of current scaling
(pytorch/custom_recipes/reference_current_scaling.py). Differences are named, and each must be as described:
  reciprocal   a number over a tensor is number * (1 / tensor) in PyTorch, so the scale is rounded twice
  margin       2^margin divides the quotient, which may have become infinite before
  subnormal    a scale below the normal numbers is unchanged
  no amax      the reference makes a scale of an infinite amax (0) and of a NaN (NaN, or the power of two that its
               library has for NaN), where the contract has 1
  of the input an infinite scale becomes the largest number of the input's format
Needs transformer-engine (pip install --no-deps transformer-engine) and PyTorch; skips without them."""

import importlib.util
import pathlib
import sys
import types

try:
    import numpy as np
    import torch
except (ImportError, OSError) as error:  # OSError: a PyTorch without its libraries
    print(f"skipped: PyTorch is not here ({error}; pip install torch numpy)")
    sys.exit(77)
from peer_support import LARGEST, SMALLEST, TOP, Tally, amaxes, asked, bits, floats, same, taken, words

FOUND = importlib.util.find_spec("transformer_engine")  # which does not import it
if FOUND is None:
    print("skipped: TransformerEngine is not here (pip install --no-deps transformer-engine)")
    sys.exit(77)
SOURCES = pathlib.Path(FOUND.submodule_search_locations[0]) / "pytorch"
FORMAT = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


class Quantizer:
    """Attributes that the reference quantizer reads from its base: the requested copies."""

    def __init__(self, *, rowwise, columnwise):
        self.rowwise_usage, self.columnwise_usage = rowwise, columnwise


def delayed_recipes(draw):
    for history in (1, 2, 3, 4, 5, 7, 8, 16, 31, 64, 255, 1024):
        for choice in ("max", "most_recent"):
            for format in TOP:
                yield history, choice, format, int(draw.choice([0, 0, 1, 2, 7, 33, 62]))


def delayed(draw):
    """Steps of 32 tensors: slot 0 collects, then theirs makes the scales and moves the history on, and ours."""
    theirs = taken(SOURCES / "quantization.py", "_update_amax_history", "_default_get_amax_and_update_history",
                   "_default_sf_compute", "_compute_amax_and_update_history", "_compute_scaling_factor",
                   "_amax_and_scale_update", torch=torch)
    of_numbers, of_tensors, rolled = Tally(), Tally(), 0
    for history, choice, format, margin in delayed_recipes(draw):
        recipe = types.SimpleNamespace(amax_compute_algo=choice, scaling_factor_compute_algo=None, margin=margin)
        for fp8_max, tally in ((TOP[format], of_numbers), (torch.tensor(TOP[format]), of_tensors)):
            slots = torch.from_numpy(amaxes(draw, (history, 32)).view(np.float32))
            scale = torch.ones(32)
            for _ in range(6):
                slots[0] = torch.from_numpy(amaxes(draw, 32).view(np.float32))
                old, before = scale.numpy().copy(), slots.numpy().copy()
                lines = [f"delayed {format} {margin} {choice} roll {words(old[t])} {words(before[:, t])}"
                         for t in range(32)]
                theirs._amax_and_scale_update(slots, scale, fp8_max, recipe)
                answers = np.stack(asked(lines))
                # A NaN is moved on with the bits that it had.
                assert (answers[:, 2:].T == bits(slots.numpy())).all(), (history, choice, format, margin)
                rolled += slots.numel()
                ours, reciprocal = floats(answers[:, 0]), floats(answers[:, 1])
                with np.errstate(all="ignore"):
                    assert same(reciprocal, np.float32(1) / ours).all()
                    amax = before.max(axis=0) if choice == "max" else before[0]
                    twice = np.float32(TOP[format]) * (np.float32(1) / amax)
                    once = np.float32(TOP[format]) / amax
                    power = np.float32(2.0**margin)
                    contract = np.clip(np.float32(TOP[format] * 2.0**-margin) / amax, SMALLEST, LARGEST)
                    names = {"margin": (np.isinf(twice) | np.isinf(once), np.full(32, LARGEST), contract),
                             "subnormal": (once / power < SMALLEST, once / power, contract),
                             "reciprocal": (np.isfinite(twice), twice / power, contract)}
                    if tally is of_tensors:
                        del names["reciprocal"]
                tally.add(ours, scale.numpy(), names,
                          lambda i: f"{format}, margin {margin}, amax {amax[i]:.9g}, scale before {old[i]:.9g}")
                scale.clamp_(min=float(SMALLEST))  # so that both continue from a scale of the contract
    of_numbers.say("scales, delayed, top a number of Python")
    of_tensors.say("scales, delayed, top a tensor")
    print(f"equal: {rolled} slots of histories of 1 to 1024")
    assert of_numbers.named["reciprocal"] < of_numbers.equal and of_tensors.named["margin"] < of_tensors.equal // 20


def current(draw, theirs):
    of_bf16 = np.uint32(0x7F7F0000).view(np.float32)
    kinds = {"fp32": (torch.float32, LARGEST), "bf16": (torch.bfloat16, of_bf16),
             "fp16": (torch.float16, np.float32(65504))}
    tally = Tally()
    for format in TOP:
        for epsilon in (0.0, 2.0**-140, 1e-12, 0.3, 1e5):
            for power_of_two in (0, 1):
                for kind, (dtype, largest) in kinds.items():
                    amax = np.concatenate([amaxes(draw, 4000), np.arange(64, dtype=np.uint32),
                                           np.arange(0x7F7FFFF0, 0x7F800001, dtype=np.uint32)]).view(np.float32)
                    scale, scale_inv, _ = theirs._scale_from_amax_tensor(
                        dtype, torch.from_numpy(amax), FORMAT[format], eps=epsilon, pow_2_scales=bool(power_of_two))
                    answer = floats(asked([f"current {format} {words(epsilon)} {power_of_two} {words(amax)}"])[0])
                    ours, ours_inv = answer[:amax.size], answer[amax.size:]
                    with np.errstate(all="ignore"):
                        a = np.maximum(amax, np.float32(epsilon))
                        of_input, of_fp32 = np.full(amax.size, largest), np.full(amax.size, LARGEST)
                        if power_of_two:
                            of_input, of_fp32 = ((bits(x) & np.uint32(0xFF800000)).view(np.float32)
                                                 for x in (of_input, of_fp32))
                        none = np.where(np.isnan(a), scale.numpy(), np.float32(0))
                        names = {"no amax": (~np.isfinite(a), none, np.ones(amax.size)),
                                 f"of the input ({kind})": (np.isinf(np.float32(TOP[format]) / a), of_input, of_fp32)}
                        if kind == "fp32":
                            del names["of the input (fp32)"]
                    tell = lambda i: f"{format}, epsilon {epsilon}, power of two {power_of_two}, amax {amax[i]:.9g}"
                    tally.add(ours, scale.numpy(), names, tell)
                    agree = same(ours, scale.numpy())
                    assert same(ours_inv, scale_inv.numpy())[agree].all()
    tally.say("scales, current, and their scale_inv")
    assert sum(tally.named.values()) < tally.equal // 10


def tensors(draw, theirs):
    """Codes: a whole tensor, or tiles of it one by one, which is the same as a scale for each block."""
    elements, blocks = 0, 0
    for case in range(48):
        format, power_of_two = list(TOP)[case % 2], case // 2 % 2
        rows, columns = (int(n) for n in draw.integers(1, 200, 2))
        tile = [(rows, columns), (128, 128), (1, 128), (128, 1)][case % 4 if case % 8 else 0]
        x = (draw.normal(size=(rows, columns)) * 2.0 ** draw.integers(-12, 12, (rows, columns))).astype(np.float32)
        x[draw.random(x.shape) < 0.1] = 0
        answer = asked([f"blocks current {format} {words(0)} {power_of_two} {rows} {columns} {tile[0]} {tile[1]} "
                        f"{words(x)}"])[0]
        number = -(-rows // tile[0]) * -(-columns // tile[1])
        scale_inv, codes = floats(answer[:number]), answer[number:number + x.size].reshape(x.shape)
        back = floats(answer[number + x.size:]).reshape(x.shape)
        quantizer = theirs.CurrentScalingQuantizerRef(FORMAT[format], pow_2_scales=bool(power_of_two))
        block = 0
        for r in range(0, rows, tile[0]):
            for c in range(0, columns, tile[1]):
                place = slice(r, r + tile[0]), slice(c, c + tile[1])
                q, inverse, q_columns, _ = quantizer._quantize(torch.from_numpy(x[place].copy()))
                assert bits(inverse.numpy())[0] == bits(scale_inv[block]), (case, block)
                assert (q.view(torch.uint8).numpy() == codes[place]).all(), (case, block)
                assert (q_columns.view(torch.uint8).numpy() == codes[place].T).all(), (case, block)
                assert same(quantizer.dequantize(q, inverse).numpy(), back[place]).all(), (case, block)
                block += 1
        elements, blocks = elements + x.size, blocks + number
    print(f"equal: {elements} codes, their columns and decoded values, in {blocks} blocks with a scale each")


def main():
    torch.set_num_threads(1)
    draw = np.random.default_rng(22)
    delayed(draw)
    theirs = taken(SOURCES / "custom_recipes/reference_current_scaling.py", "_scale_from_amax_tensor",
                   "CurrentScalingQuantizerRef", *(f"CurrentScalingQuantizerRef.{method}" for method in
                                                   ("__init__", "compute_scale", "_quantize", "dequantize")),
                   torch=torch, Quantizer=Quantizer)
    current(draw, theirs)
    tensors(draw, theirs)


main()
