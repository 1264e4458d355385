"""The plug-in of zproof for pytest, by pytester: every option, the marker, failure messages. Needs pytest."""

import importlib.metadata
import re
import sys

import pytest
from pytester_support import plain_environment, run  # noqa: F401  (fixtures)
from zproof.tensor_files import read_arrays

pytest_plugins = ["pytester"]

KERNELS = """
import numpy as np
import pytest

def adamw(grad, master, exp_avg, exp_avg_sq, scalars):
    s = {name: np.float32(value) for name, value in vars(scalars).items() if value is not None}
    exp_avg[...] = s["beta1"] * exp_avg + s["one_minus_beta1"] * grad
    exp_avg_sq[...] = s["beta2"] * exp_avg_sq + s["one_minus_beta2"] * (grad * grad)
    a = s["step_size"] * (exp_avg / (np.sqrt(exp_avg_sq) / s["sqrt_bias_correction2"] + s["eps"]))
    master -= a + s["lr_weight_decay"] * master if s["has_decay"] else a

def forgets_the_last(grad, master, exp_avg, exp_avg_sq, scalars):
    adamw(grad[:-1], master[:-1], exp_avg[:-1], exp_avg_sq[:-1], scalars)
"""


def test_judge(pytester, run):
    pytester.makepyfile(test_it=KERNELS + """
@pytest.mark.zproof(op="adamw", fills="training")
def test_right(zproof):
    verdict = zproof.judge(adamw)
    assert verdict.passed and verdict.results[0]["compared"] > 0

@pytest.mark.zproof(op="adamw", fills="training")
def test_wrong(zproof):
    zproof.judge(forgets_the_last)

def test_op_in_the_call(zproof):
    zproof.judge(adamw, "adamw", fills="training")

def test_no_op(zproof):
    zproof.judge(adamw)

@pytest.mark.zproof(op="adamw", fills="zero")
def test_words_of_the_call_win(zproof):
    assert "fill:training" in zproof.judge(adamw, fills="training").results[0]["id"]
""")
    result = run("--zp-save-failing", "kept", "--zp-seed", "7", "--zp-second-seed", "8")
    result.assert_outcomes(passed=3, failed=2)
    result.stdout.fnmatch_lines([
        "zproof: *, contract *, seed 7",
        "*FAIL op/adamw_update/python/*",
        "*replay: python -m pytest test_it.py::test_wrong --zp-seed 7 --zp-second-seed 8",
        "*saved: kept/test_it.py-test_wrong-*",
        "*TypeError: zproof.judge has no operation (*); give op='adamw'*",
        "*replay: python -m pytest test_it.py::test_no_op --zp-seed 7",
    ])
    in_report = r"^E +replay +python -m pytest test_it.py::test_wrong --zp-seed 7 --zp-second-seed 8$"
    assert re.search(in_report, result.stdout.str(), re.MULTILINE)
    bundles = list(pytester.path.glob("kept/*/*/tensors.safetensors"))
    assert len(bundles) == 1


def test_a_list_of_dtypes_is_a_test_of_each(pytester, run):
    pytester.makepyfile("""
import pytest

@pytest.mark.zproof(op="adamw", dtype=["fp32", "bf16"])
def test_each(zproof):
    print("dtype", zproof.dtype)

@pytest.mark.zproof(dtype="fp16")
class TestOne:
    def test_it(self, zproof):
        print("dtype", zproof.dtype)

def test_none(zproof):
    assert zproof.dtype is None
""")
    result = run("-v", "-s")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["*test_each?fp32?*", "*test_each?bf16?*", "*dtype fp16*"])


@pytest.mark.parametrize(("marker", "says"), [
    ("op='adamw', dtyp='bf16'", "*marker zproof has no 'dtyp' (*); it can have op, dtype*"),
    ("'adamw'", "*marker zproof takes words (op='adamw'), not ('adamw',) (*); name them*"),
])
def test_marker_words(pytester, run, marker, says):
    pytester.makepyfile(f"""
import pytest

@pytest.mark.zproof({marker})
def test_it(zproof):
    pass
""")
    result = run()
    assert result.ret != 0
    result.stdout.fnmatch_lines([says])


def test_dtypes_without_the_fixture(pytester, run):
    pytester.makepyfile("""
import pytest

@pytest.mark.zproof(dtype=["fp32", "bf16"])
def test_it():
    pass
""")
    result = run()
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*several dtypes and the test no fixture zproof (*); take the fixture*"])


@pytest.mark.parametrize(("words", "says"), [
    (["--zp-seed", "x"], "*--zp-seed is 'x' (*); give 0 to 18446744073709551615*"),
    (["--zp-seed", "-1"], "*--zp-seed*"),
    (["--zp-second-seed", "x"], "*--zp-second-seed is 'x' (*"),
    (["--zp-seed", str(2**64)], "*--zp-seed is '18446744073709551616' (*"),
    (["--zp-regen", " "], "*--zp-regen has no reason (*); give one*"),
])
def test_bad_options(pytester, run, words, says):
    pytester.makepyfile("def test_it(): pass")
    result = run(*words)
    assert result.ret == 4  # pytest's exit code for a usage error
    result.stderr.fnmatch_lines([says])


def test_seed_and_numbers(pytester, run):
    """The numbers of a test depend on the seed and its id, not on the tests around it."""
    pytester.makepyfile("""
def test_a(zproof):
    print("a", zproof.seed, zproof.rng.integers(2**60))

def test_b(zproof):
    print("b", zproof.seed, zproof.rng.integers(2**60))
""")

    def numbers(*words):
        return dict(re.findall(r"^\.?([ab]) (\d+ \d+)$", run("-s", "-q", *words).stdout.str(), re.MULTILINE))

    both = numbers()
    assert both["a"].startswith("1 ") and both["a"] != both["b"]
    assert numbers("-k", "test_b") == {"b": both["b"]}
    other = numbers("--zp-seed", str(2**64 - 1))
    assert other["a"].startswith(f"{2**64 - 1} ") and other["a"].split()[1] != both["a"].split()[1]


def test_assertion_is_kept(pytester, run):
    pytester.makepyfile("""
import numpy as np
import pytest

@pytest.mark.parametrize("odd", ["a/b", "a-b"])
def test_it(zproof, odd):
    want = {"m": np.arange(4, dtype=np.float32), "deep": [np.int64(3)]}
    zproof.assert_step_close(want, want)
    zproof.assert_step_close({"m": want["m"] + 1, "deep": [np.int64(3)]}, want)
""")
    result = run()
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*Mismatched elements: 4 / 4 (100.0%)", "*item ?'m'?", "*replay: *'test_assertion*"])
    result.stdout.no_fnmatch_line("*saved:*")
    result.stdout.no_fnmatch_line("*def assert_step_close*")
    result = run("--zp-save-failing", "kept")
    saved = re.findall(r"^saved: (.*)$", result.stdout.str(), re.MULTILINE)
    assert len(set(saved)) == 2

    for path in saved:
        arrays, metadata = read_arrays(pytester.path / path)
        assert sorted(arrays) == ["actual.deep.0", "actual.m", "expected.deep.0", "expected.m"]
        assert arrays["actual.m"].values().tolist() == [1, 2, 3, 4]
        assert metadata["seed"] == "1" and "test_it" in metadata["test"]


def test_every_failure_of_a_test_is_kept(pytester, run):
    pytester.makepyfile("""
import pytest

def test_it(zproof):
    with pytest.raises(AssertionError):
        zproof.assert_step_close(1, 2)
    zproof.assert_step_close(3, 4)
""")
    result = run("--zp-save-failing", "kept")
    assert len(set(re.findall(r"^saved: (.*)$", result.stdout.str(), re.MULTILINE))) == 2


def test_a_folder_that_cannot_be_written_hides_nothing(pytester, run):
    pytester.makefile("", kept="a file")
    pytester.makepyfile("def test_it(zproof): zproof.assert_step_close(1, 2)")
    result = run("--zp-save-failing", "kept")
    result.stdout.fnmatch_lines(["*Scalars are not equal!", "*saved: nothing: *"])


def test_help(run):
    result = run("--help")
    result.stdout.fnmatch_lines(["*--zp-seed=N*", "*--zp-second-seed=N*", "*--zp-save-failing=DIR*", "*--zp-regen=REASON*"])
    run("--markers").stdout.fnmatch_lines(["@pytest.mark.zproof(op, dtype, *"])


def test_installed_package_is_found_by_pytest(pytester, monkeypatch):
    if not importlib.metadata.entry_points(group="pytest11", name="zproof"):
        pytest.skip("the package zproof is on the path here, and not installed")
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    pytester.makepyfile("def test_it(zproof): assert zproof.seed == 1")
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_other_tests_are_left_alone(pytester, run):
    pytester.makepyfile("def test_it(): assert False")
    result = run()
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*replay:*")


def test_github_annotations(pytester, run, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(pytester.path))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    pytester.makepyfile(test_it=KERNELS + """
@pytest.mark.zproof(op="adamw", fills="training")
def test_wrong(zproof):
    zproof.judge(forgets_the_last)

def test_close(zproof):
    zproof.assert_step_close({"m": np.float32([1, 2, 4])}, {"m": np.float32([1, 2, 3])})

def test_right(zproof):
    pass

def test_of_others():
    assert not "50 %, and"
""")
    lines = (pytester.path / "test_it.py").read_text().splitlines()
    at = {name: next(n for n, line in enumerate(lines, 1) if name in line) for name in ("zproof.judge(", "zproof.assert_")}
    result = run()
    result.assert_outcomes(passed=1, failed=3)
    found = [line for line in result.outlines if line.startswith("::")]
    assert len(found) == 2
    assert found[0].startswith(f"::error file=test_it.py,line={at['zproof.judge(']},title=zproof%3A test_it.py%3A%3Atest_wrong"
                               "::op/adamw_update/python/forgets_the_last/fill:training%0A")
    assert re.search("%0A  first at  exp_avg\\[.*%0A  values    got .*  want ", found[0])
    assert found[1].startswith(f"::error file=test_it.py,line={at['zproof.assert_']},title=zproof%3A test_it.py%3A%3Atest_close::")
    assert "%0AMismatched elements: 1 / 3 (33.3%25)%0A" in found[1]
    summary = (pytester.path / "summary.md").read_text()
    assert summary.count("| failed |") == 2 and summary.count("| passed |") == 1
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "/dev/null/summary")
    run("-k", "right").stdout.fnmatch_lines(["zproof: the job summary /dev/null/summary cannot be written: *"])
    monkeypatch.delenv("GITHUB_ACTIONS")
    run().stdout.no_fnmatch_line("::error*")


if __name__ == "__main__":
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", __file__, *sys.argv[1:]]))
