"""Self-check of peers.py without PyTorch: the arithmetic of its table, its errors, the file it reads."""

import io
import json
import struct

from peer import worker
from peer.report import Problem, ratios, table


def group(rows):
    checks = {"torch, fused AdamW": {"ok": True, "difference": 1e-8, "bound": 1e-6},
              "DeepSpeed CPU Adam": {"unavailable": "it does not build: " + 100 * "x"}}
    return {"title": "16 parameters, 1 tensor, 2 threads", "rows": rows, "checks": checks}


def check_ratios():
    # By hand: medians of the rounds are 2, 4 and 6 over 1, 2 and 2.
    rows = {"ours": [[1, 1, 9], [2, 2, 2], [2, 1, 3]], "torch, fused AdamW": [[2, 2, 2], [4, 1, 9], [6, 6, 7]]}
    assert ratios(rows, "torch, fused AdamW", "ours") == [2, 2, 3]
    text = table(group(rows))
    line = next(line for line in text.splitlines() if line.startswith("torch, fused"))
    assert line.split()[-5:] == ["1000.00", "4000.00", "2.00", "2.00", "3.00"], line
    assert "same  torch, fused AdamW: within 1.0e-08" in text and "none  DeepSpeed CPU Adam: it does not" in text
    assert all(len(line) <= 100 for line in text.splitlines())


def check_variants():
    rows = {"ours: product, messages": [[2]], "ours: product, windows": [[1]], "DDP over gloo, fused AdamW": [[4]]}
    lines = [line for line in table(group(rows)).splitlines() if line.startswith("DDP")]
    assert [line.split()[-2] for line in lines] == ["2.00", "4.00"], lines


def check_muon():
    record = group({"ours": [[1]], "ours, factors fp32": [[2]], "torch, Muon and fused AdamW": [[3]]})
    record["checks"] = {"torch, Muon and fused AdamW": {
        "ok": False, "difference": 1e-8, "bound": 1e-6, "noise": 0.2, "noise_bound": 0.1, "distance": [0.01, 0.25]}}
    record["of_fp32_peak"] = {"ours": [0.5, 0.9, 0.7]}
    text = table(record)
    for line in ("ours: 0.70 of the fp32 peak", "WRONG torch, Muon and fused AdamW: within 1.0e-08",
                 "moves of matrices within 2.0e-01, bound 1.0e-01", "1.00e-02 2.50e-01"):
        assert line in text, text
    assert all(len(line) <= 100 for line in text.splitlines())


def check_wrong_is_said():
    wrong = group({"ours": [[1]], "torch, fused AdamW": [[1]]})
    wrong["checks"]["torch, fused AdamW"]["ok"] = False
    assert "WRONG torch, fused AdamW" in table(wrong)


def check_header():
    header = {"__metadata__": {"steps": "3"}, "leaf.0": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}}
    text = json.dumps(header).encode()
    tensors, metadata = worker.read_header(io.BytesIO(struct.pack("<Q", len(text)) + text + bytes(16)))
    assert tensors == {"leaf.0": ("F32", [2], 8 + len(text) + 8, 8 + len(text) + 16)}
    assert metadata == {"steps": "3"}


def check_spacing():
    # Of bf16 neighbours 1 and the next one are furthest apart: 0x3F80 and 0x3F81 are their bits.
    one, following = (struct.unpack("<f", struct.pack("<I", bits << 16))[0] for bits in (0x3F80, 0x3F81))
    assert worker.BF16_SPACING == (following - one) / one


def check_errors(parse):
    refused = ((["--peers", "jax"], "there is no peer 'jax'"), (["--rounds", "0"], "--rounds is 0"),
               (["--numel", "1000"], "--numel is 1000"), (["--tensors", "0"], "--tensors"), (["--colour"], "--colour"))
    for words, wanted in refused:
        try:
            parse(words)
        except Problem as problem:
            assert problem.code == 2 and wanted in str(problem), str(problem)
            assert str(problem).count("\n") == 0 and " (" in str(problem) and "); " in str(problem)
        else:
            raise AssertionError(f"{words} were accepted")
    assert parse(["--numel", "1000", "--peers", "torch-fused"]).numel == 1000


def run(parse):
    """parse: of the command line."""
    for check in (check_ratios, check_variants, check_muon, check_wrong_is_said, check_header, check_spacing):
        check()
        print(f"ok: {check.__name__[6:].replace('_', ' ')}")
    check_errors(parse)
    print("ok: errors")
    return 0
