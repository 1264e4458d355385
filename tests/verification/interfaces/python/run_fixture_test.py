"""The fixture zproof_run of zproof for pytest, by pytester. Needs pytest; the recording is written without torch."""

import sys

import pytest
from pytester_support import plain_environment, run  # noqa: F401  (fixtures)

pytest_plugins = ["pytester"]

# One rank, SGD without momentum: a parameter of three elements, and a factor for the gradient that the update gets.
RECORDING = """
import json
import pathlib
import numpy as np
import zproof
from zproof import _zproof

def train(folder, factor=1.0, steps=2, lr=0.5):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    master = np.array([1, 2, 3], np.float32)
    for step in range(1, steps + 1):
        grad = np.array([0.25, -0.5, 2], np.float32) * step
        used = (grad * np.float32(factor if step == 2 else 1)).astype(np.float32)
        after = (master - np.float32(lr) * used).astype(np.float32)
        tensors = {"leaf.0.w": grad, "reduced.w": grad, "before.grad.w": used, "before.master.w": master,
                   "after.master.w": after, "model.w": after}
        metadata = {"version": 1, "program": "numpy", "rank": 0, "world": 1, "step": step, "micro_batches": 1,
                    "reduction": "mean", "applied": True, "groups": [{"rule": "sgd", "lr": lr, "weight_decay": 0.0, "momentum": 0.0, "dampening": 0.0,
                                "nesterov": False, "maximize": False}],
                    "parameters": [{"name": "w", "shape": [3], "group": 0, "t": step, "owned": [[0, 3]]}]}
        _zproof.write_tensors(str(folder / f"step{step:06d}.rank0.safetensors"),
                              [(name, "F32", [3], values.view(np.uint8)) for name, values in tensors.items()],
                              {"zeroproof_recording": json.dumps(metadata)})
        master = after
"""


def test_a_recording_is_judged_at_the_end(pytester, run):
    pytester.makepyfile(test_it=RECORDING + """
def test_right(zproof_run):
    train(zproof_run.folder)

def test_wrong(zproof_run):
    train(zproof_run.folder, factor=2)

def test_own_failure(zproof_run):
    train(zproof_run.folder, factor=2)
    assert False, "of the test"

def test_recorded_nothing(zproof_run):
    pass
""")
    result = run()
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines([
        "*test_wrong*",
        "*FAIL judge-run/clip/step000002*",
        "*first at  step 2  phase clip  rank 0  buffer before.grad*",
        "*test_own_failure*",
        "*AssertionError: of the test*",
        "*test_recorded_nothing*",
        "*AssertionError: nothing was recorded (*recording does not exist); pass zproof_run.folder to *",
    ])
    assert result.stdout.str().count("FAIL judge-run/clip") == 2  # the report, and the summary of pytest


def test_judging_on_call(pytester, run):
    pytester.makepyfile(test_it=RECORDING + """
import pytest

def test_right(zproof_run):
    train(zproof_run.folder)
    assert zproof_run.judge().status == "right"

def test_wrong(zproof_run):
    train(zproof_run.folder, factor=2)
    with pytest.raises(AssertionError, match="FAIL judge-run/clip/step000002"):
        zproof_run.judge()
    assert zproof_run.judge(steps="1").passed

def test_another_folder(zproof_run, tmp_path):
    train(tmp_path / "one")
    train(tmp_path / "two", lr=0.25)
    assert zproof_run.judge(tmp_path / "one").passed
    with pytest.raises(AssertionError, match="settings"):
        zproof_run.judge(tmp_path / "one", against=tmp_path / "two")
""")
    run().assert_outcomes(passed=3)


def test_two_settings(pytester, run):
    pytester.makepyfile(test_it=RECORDING + """
def test_equal(zproof_run):
    assert zproof_run.ab(train, {}, {"factor": 1.0}).status == "equal"

def test_different(zproof_run):
    zproof_run.ab(train, {}, {"factor": 2.0})

def test_other_steps(zproof_run):
    zproof_run.ab(train, {}, {"steps": 3})
""")
    result = run()
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*FAIL against/clip/step000002*", "*B is wrong by itself*", "*step 3 is not recorded*"])


if __name__ == "__main__":
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", __file__, *sys.argv[1:]]))
