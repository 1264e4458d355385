#!/usr/bin/env python3
"""modelopt_python_test.py TOOL: ModelOpt's own calibrators, and this project's, on the same values and the same counts.

Differences are named: a scale of e4m3, which PyTorch makes as 448 * (1 / amax); a magnitude next to an edge that
its fp32 quotient puts into the next bin; a percentile at a share that is p itself, and two clips whose squared errors
are in another order, except for the roundings of ModelOpt's sums; factors of SmoothQuant, whose powers and quotient are
fp32 there, those of channels without inputs, and layers with a factor of 0, for which it fails. Needs nvidia-modelopt
with requests and huggingface_hub, and PyTorch (no GPU); skips without them."""

import contextlib
import copy
import io
import math
import subprocess
import sys
import warnings

warnings.simplefilter("ignore")  # both libraries print many warnings without a GPU
try:
    import numpy as np
    import torch
    import modelopt.torch.quantization as quantization
    from modelopt.torch.quantization.calib import HistogramCalibrator, MaxCalibrator, MseCalibrator
    from modelopt.torch.quantization.tensor_quant import _fp8_eager, _tensor_quant
except (ImportError, OSError) as error:  # OSError: a PyTorch without its libraries
    print(f"skipped: ModelOpt or PyTorch is not here ({error}; pip install nvidia-modelopt)")
    sys.exit(77)


def words(x):
    return " ".join(map(str, np.ascontiguousarray(x, np.float32).view(np.uint32).ravel().tolist()))


def word(x):
    return int(np.float32(x).view(np.uint32))


def asked(lines):
    said = subprocess.run([sys.argv[1]], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    answers = said.stdout.splitlines()
    assert len(answers) == len(lines), (len(answers), len(lines))
    return answers


def floats(answer):
    return np.array(answer.split(), dtype=np.uint32).view(np.float32)


def batches(draw, number):
    """Activations: a bell with a few large elements, larger or smaller from batch to batch."""
    made = []
    for _ in range(number):
        x = draw.normal(size=(draw.integers(20, 90), 24)) * 2.0 ** draw.integers(-2, 3)
        x[draw.random(x.shape) < 0.002] *= 9
        made.append(x.astype(np.float32))
    return made


def largest(draw):
    for _ in range(20):
        seen = batches(draw, 4)
        channels, whole = MaxCalibrator(axis=1), MaxCalibrator()
        for x in seen:
            channels.collect(torch.from_numpy(x))
            whole.collect(torch.from_numpy(x))
        ours = floats(asked([f"max 24 {words(np.concatenate(seen))}"])[0])
        assert (ours == channels.compute_amax().numpy().ravel()).all()
        assert ours.max() == whole.compute_amax().item()
    print("equal: amax of 20 tensors, and of each of their 24 channels")


def collected(seen, bins):
    calibrator = HistogramCalibrator(num_bins=bins)
    for x in seen:
        calibrator.collect(torch.from_numpy(x))
    return calibrator


def histograms(draw):
    """The bins that both append; returns ModelOpt's."""
    made, moved, total = [], 0, 0
    for case in range(24):
        bins = (256, 512, 2048)[case % 3]
        seen = batches(draw, 1 + case % 5)
        theirs = collected(seen, bins)
        answer = asked([f"appended {bins} " + " ".join(f"{x.size} {words(x)}" for x in seen)])[0].split()
        width = np.uint32(answer[0]).view(np.float32)
        ours = np.array(answer[1:], dtype=np.int64)
        counts = theirs._calib_hist.numpy().astype(np.int64)
        assert width == np.float32(np.abs(seen[0]).max() / np.float32(bins)), case
        assert len(ours) == len(counts), (case, len(ours), len(counts))
        assert ours.sum() == counts.sum() == sum(x.size for x in seen), case
        difference = np.cumsum(ours - counts)  # of elements that the other has one bin earlier or later
        moved += int(np.abs(difference).sum())
        total += int(ours.sum())
        made.append(theirs)
    print(f"equal: bins and widths of 24 histograms; {moved} of {total} elements in the bin beside")
    assert moved <= total // 500
    return made


def percentiles(made):
    lines, wanted = [], []
    for theirs in made:
        counts = theirs._calib_hist.numpy().astype(np.int64)
        for p in (50.0, 90.0, 99.0, 99.9, 99.99, 100.0):
            lines.append(f"percentile {p} " + " ".join(map(str, counts.tolist())))
            wanted.append((counts, p, theirs.compute_amax("percentile", percentile=p).item(),
                           theirs._calib_bin_edges.numpy()))
    near = 0
    for answer, (counts, p, amax, edges) in zip(asked(lines), wanted):
        k = int(float(answer))
        if edges[k] == np.float32(amax):
            continue
        other = int(np.argmin(np.abs(edges - np.float32(amax))))
        between = counts[min(k, other) + 1:max(k, other) + 1]
        # The share at one of the two edges is p up to the roundings of a sum of quotients: then it is p in integers.
        assert other == k + 1 or not between[:-1].any(), (p, k, other)
        assert counts[:k + 1].sum() * 100 == round(p * counts.sum()), (p, k, other)
        near += 1
    print(f"equal: {len(lines) - near} of {len(lines)} percentiles; {near} at a share that is p itself")
    assert near <= len(lines) // 10


def entropies(made):
    few = [theirs for theirs in made if len(theirs._calib_hist) <= 1200][:8] + made[2:3]
    lines = ["entropy 8 " + " ".join(map(str, theirs._calib_hist.numpy().astype(np.int64).tolist())) for theirs in few]
    for answer, theirs in zip(asked(lines), few):
        k, edges = int(float(answer)), theirs._calib_bin_edges.numpy()
        assert edges[k] == np.float32(theirs.compute_amax("entropy").item()), k
    print(f"equal: {len(few)} clips by entropy")


def fake(x, amax, bits):
    return _fp8_eager(x, amax) if bits == 0 else _tensor_quant(x, amax, num_bits=bits)


def there_and_back(draw):
    x = (draw.normal(size=5000) * 2.0 ** draw.integers(-8, 8, 5000)).astype(np.float32)
    lines, wanted = [], []
    for bits in (0, 2, 4, 8, 16):
        for amax in (0.37, 3.0, 250.1, 448.0, 2.0**-20, 2.0**-24, 0.0):
            method = "e4m3" if bits == 0 else "integer"
            lines.append(f"{method} {bits} {word(amax)} {words(x)}")
            wanted.append((bits, amax, fake(torch.from_numpy(x), torch.tensor(amax), bits).numpy()))
    named = 0
    for answer, (bits, amax, theirs) in zip(asked(lines), wanted):
        a = np.float32(amax if amax > 2.0**-24 else 1)
        if bits == 0 and np.float32(448) / a != np.float32(448) * (np.float32(1) / a):
            named += 1
            continue
        assert (floats(answer) == theirs).all(), (bits, amax)
    print(f"equal: {len(lines) - named} times 5000 elements there and back, a zero of either sign; {named} times e4m3 "
          "whose scale PyTorch makes as 448 * (1 / amax), twice rounded")
    assert named < 4


def sweeps(draw):
    """25 clips from a quarter of amax on: a step of 1/32, where ModelOpt's default is 0.1 to 4 amax."""
    near = 0
    for case in range(60):
        bits = (8, 4, 6, 2, 0, 0)[case % 6]
        x = np.concatenate([batch.ravel() for batch in batches(draw, 1)])
        amax = np.abs(x).max()
        theirs = MseCalibrator(torch.tensor(amax), step_size=1 / 32, start_multiplier=0.25, stop_multiplier=1.0,
                               quant_func=lambda v, a, b=bits: fake(v, a, b))
        theirs.collect(torch.from_numpy(x))
        losses = [loss.item() for loss in theirs._losses_sum]
        ours = floats(asked([f"mse {bits} {word(amax)} {words(x)}"])[0])[0]
        found = np.float32(theirs.compute_amax().item())
        candidates = [np.float32(amax * np.float32(m / 32)) for m in range(8, 33)]
        assert ours in candidates and found in candidates, case
        if ours == found:
            continue
        # The exact sum of the squares decides; ModelOpt's sum is one of fp32, and of e4m3 with a scale that is rounded
        # twice.
        exact = {}
        for clip in (ours, found):
            e = x - floats(asked([f"{'integer' if bits else 'e4m3'} {bits} {word(clip)} {words(x)}"])[0])
            exact[clip] = math.fsum(float(v) * float(v) for v in e)
        assert exact[ours] <= exact[found], case
        assert losses[candidates.index(found)] <= losses[candidates.index(ours)], case
        near += 1
    print(f"equal: {60 - near} of 60 clips by mean square, 20 of them of e4m3; {near} whose exact sums are in another "
          "order")
    assert near <= 4


def smoothed(x, weight, alpha):
    """ModelOpt's factors of the channels of a layer that has seen x, as its own command makes them."""
    config = copy.deepcopy(quantization.INT8_SMOOTHQUANT_CFG)
    config["algorithm"] = {"method": "smoothquant", "alpha": alpha}
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
        layer.weight.copy_(torch.from_numpy(weight))
        model = quantization.quantize(torch.nn.Sequential(layer), config, lambda model: model(torch.from_numpy(x)))
    return model[0].input_quantizer.pre_quant_scale.numpy()


def smooth_factors(draw):
    """Of channels whose magnitudes are far apart, some of them 0 or almost."""
    equal, rounded, unused, failed = 0, 0, 0, 0
    for case in range(30):
        alpha = (1.0, 0.5, 0.0, 0.25, 0.8)[case % 5]
        x = (draw.normal(size=(30, 24)) * 2.0 ** draw.integers(-18, 18, 24)).astype(np.float32)
        weight = (draw.normal(size=(7, 24)) * 2.0 ** draw.integers(-9, 9, 24)).astype(np.float32)
        weight[:, 5] *= 0 if case % 3 == 0 else 1
        x[:, 3] *= np.float32(2.0**-60)
        x[:, 4] *= 0 if case % 2 else 1
        amax = [asked([f"max 24 {words(values)}"])[0] for values in (x, weight)]
        ours = floats(asked([f"smooth {alpha} 24 {' '.join(amax)}"])[0])
        inputs, weights = (floats(answer).astype(np.float64) for answer in amax)
        with np.errstate(all="ignore"):
            exact = np.clip(weights ** (1 - alpha) / inputs**alpha, np.float32(1e-4), np.float32(1e4))
        try:
            theirs = smoothed(x, weight, alpha)
        except IndexError:  # with a factor of at most 2^-31 it masks channels without inputs, in another shape
            assert (weights == 0).any() and alpha < 1, case
            failed += 1
            continue
        # Two powers of fp32, within one place each, and a quotient; for 1 and 0 the quotient alone.
        again = np.abs(theirs - exact) <= 2.0**-21 * exact * (alpha not in (0, 1))
        none = inputs <= 2.0**-31
        assert (ours[none] == 1).all(), case
        assert ((theirs == ours) | (theirs == np.float32(exact)) | again)[none].all(), case
        unused += int(np.count_nonzero(none & (theirs != ours)))
        fits = (theirs == ours) & ~none
        equal += int(np.count_nonzero(fits))
        assert (fits | none | again & (ours == np.float32(exact))).all(), (case, alpha, ours, theirs)
        rounded += int(np.count_nonzero(~fits & ~none))
    print(f"equal: {equal} factors of SmoothQuant; {rounded} where powers and quotient of fp32 are rounded one by one; "
          f"{unused} of a channel without inputs, 1 here, what a division by about 0 is brought to there; {failed} "
          "layers with a factor of 0, which are an error there")
    assert unused > 0 and rounded < equal and failed < 10


def main():
    torch.set_num_threads(1)
    draw = np.random.default_rng(26)
    largest(draw)
    made = histograms(draw)
    percentiles(made)
    entropies(made)
    there_and_back(draw)
    sweeps(draw)
    smooth_factors(draw)


main()
