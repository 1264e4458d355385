"""Golden files of tests: the fixture's golden and --zp-regen, by pytester. Needs pytest."""

import sys

import pytest
from pytester_support import plain_environment, run  # noqa: F401  (fixtures)
from zproof.golden import GoldenFile

pytest_plugins = ["pytester"]


def test_regen_is_refused_in_ci(pytester, run, monkeypatch):
    monkeypatch.setenv("CI", "true")
    pytester.makepyfile("def test_it(zproof): zproof.golden('a', {'m': 1.0})")
    result = run("--zp-regen", "first")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*--zp-regen: *where CI is set (*proves nothing); *"])
    assert not (pytester.path / "golden").exists()


GOLDEN = """
import numpy as np

def test_it(zproof):
    zproof.golden("step", {{"master": np.array([1.0, {value}], np.float32), "t": np.int64(3)}}{words})
"""


def test_golden(pytester, run):
    def with_value(value, words=""):
        pytester.makepyfile(test_it=GOLDEN.format(value=value, words=words))

    golden = pytester.path / "golden/step.safetensors"
    record = pytester.path / "golden/step.safetensors.toml"
    with_value(2.0)
    result = run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*there is no golden file */golden/step.safetensors (*); run pytest with --zp-regen*"])
    assert not golden.exists()

    result = run("--zp-regen", "as \"first\" computed")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["golden file recorded: */golden/step.safetensors*"])
    first = golden.read_bytes()
    assert 'reason = "as \\"first\\" computed"' in record.read_text()
    run().assert_outcomes(passed=1)

    result = run("--zp-regen", "again")  # nothing changed: nothing is written
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("golden file recorded*")
    assert golden.read_bytes() == first and "again" not in record.read_text()

    with_value("np.nextafter(np.float32(2), np.float32(3))")
    result = run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Mismatched elements: 1 / 2 (50.0%)", "*item ?'master'?"])
    with_value("np.nextafter(np.float32(2), np.float32(3))", ", ulps=1")
    result = run()
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*BitsChanged: step.safetensors: bits changed within the bound*"])
    result = run("--zp-regen", "rounded otherwise")
    result.assert_outcomes(passed=1)
    run("-W", "error").assert_outcomes(passed=1)
    assert record.read_text().count("[[history]]") == 2 and golden.read_bytes() != first


DRAWN = """
import numpy as np

def test_it(zproof):
    print("seed", zproof.seed)
    zproof.golden("step", {"drawn": zproof.rng.random(9, np.float32)})
"""


def test_the_seed_is_that_of_the_golden_file(pytester, run):
    pytester.makepyfile(test_it=DRAWN)
    record = pytester.path / "golden/step.safetensors.toml"
    run("--zp-regen", "first", "--zp-seed", "18446744073709551615").assert_outcomes(passed=1)
    assert 'seed = "18446744073709551615"' in record.read_text()
    for words in ([], ["--zp-seed", "2"], ["--zp-seed", "3"]):
        run(*words).assert_outcomes(passed=1)
    run("-s", "--zp-seed", "2").stdout.fnmatch_lines(["*seed 18446744073709551615"])
    run("--zp-regen", "again").assert_outcomes(passed=1)  # without a seed it is kept
    assert record.read_text().count("[[history]]") == 1
    run("--zp-regen", "another seed", "--zp-seed", "2").assert_outcomes(passed=1)
    assert 'seed = "2"' in record.read_text()
    run("--zp-seed", "3").assert_outcomes(passed=1)
    record.write_text("".join(line + "\n" for line in record.read_text().splitlines() if not line.startswith("seed")))
    run("--zp-seed", "2").assert_outcomes(passed=1)  # of an earlier version: it has no seed
    pytester.makepyfile(test_it=DRAWN.replace("zproof.rng.random(9, np.float32)", "np.float32([1, 2])"))
    for seed in ("5", "6"):  # the same arrays, and other inputs of everything else
        run("--zp-regen", "fixed", "--zp-seed", seed).assert_outcomes(passed=1)
        assert f'seed = "{seed}"' in record.read_text()


def test_a_mismatch_says_which_file_and_how_to_keep_the_numbers(pytester, run):
    pytester.makepyfile(test_it=DRAWN)
    run("--zp-regen", "first").assert_outcomes(passed=1)
    text = (pytester.path / "test_it.py").read_text()
    (pytester.path / "test_it.py").write_text(text.replace("random(9, np.float32)", "random(9, np.float32) * 2"))
    result = run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*The golden file is */golden/step.safetensors",
                                 "*If the new results are right, keep them: pytest test_it.py::test_it --zp-regen REASON"])
    result.stdout.no_fnmatch_line("*It was recorded by*")
    (pytester.path / "test_it.py").rename(pytester.path / "test_moved.py")
    run().stdout.fnmatch_lines(["*It was recorded by test_it.py::test_it: *"])


def test_golden_files_that_cannot_be_trusted(pytester, run):
    pytester.makepyfile(test_it=GOLDEN.format(value=2.0, words=""))
    run("--zp-regen", "first").assert_outcomes(passed=1)
    golden = pytester.path / "golden/step.safetensors"
    record = pytester.path / "golden/step.safetensors.toml"
    good, text = golden.read_bytes(), record.read_text()

    golden.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    run().stdout.fnmatch_lines(["*step.safetensors is not the file that *.toml describes (*); restore both*"])
    golden.write_bytes(good)
    record.write_text(text.replace("zproof-golden/1", "zeroproof-golden/1"))
    for words in ([], ["--zp-regen", "mine"]):
        result = run(*words)
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["*of schema 'zeroproof-golden/1'* (*); files of zeroproof golden belong*"])
    record.write_text("schema = ")
    run().stdout.fnmatch_lines(["*is no TOML (*); restore it*"])
    record.unlink()
    run().stdout.fnmatch_lines(["*has no step.safetensors.toml beside it (*); restore it*"])
    record.write_text(text)
    run().assert_outcomes(passed=1)


def test_golden_files_refuse_by_themselves(pytester, monkeypatch):
    file = GoldenFile(pytester.path / "a.safetensors", "test_it")
    with pytest.raises(ValueError, match="without a reason"):
        file.renew({"m": 1.0}, " ")
    monkeypatch.setenv("CI", "1")
    with pytest.raises(ValueError, match="where CI is set"):
        file.renew({"m": 1.0}, "first")
    assert not file.path.exists()


def test_golden_names(pytester, run):
    pytester.makepyfile("def test_it(zproof): zproof.golden('../up', {'m': 1.0})")
    result = run("--zp-regen", "first")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*golden got the name '../up' (*); use letters*"])


TRAINING = """
import shutil

import torch
from zproof.tensor_files import write_arrays

def test_it(zproof):
    torch.manual_seed({seed})
    torch.set_num_threads(1)
    weight = torch.nn.Parameter(torch.randn(7, 5))
    x = torch.full((16,), 1e-38) * 0.1
    with zproof.operations() as recorder:
        torch.set_flush_denormal({flush})
        loss = (weight.sin() {times}).sum() + (x * 3).sum() * 1e37
        torch.set_flush_denormal(False)
    write_arrays("new.safetensors", {{"loss": loss.detach()}})
    shutil.copyfile(recorder.path, "new.operations")
    zproof.golden("losses", {{"loss": loss}}{operations})
"""


def test_golden_with_operations(pytester, run):
    """A mismatch names its cause; the outcome is a failure as before."""
    pytest.importorskip("torch")

    def with_(seed=1, flush=False, times="* 2", operations=", operations=recorder"):
        pytester.makepyfile(test_it=TRAINING.format(seed=seed, flush=flush, times=times, operations=operations))

    def failing(*lines):
        result = run()
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines([f"*{line}*" for line in lines])

    golden = pytester.path / "golden"
    with_(operations="")
    run("--zp-regen", "without operations").assert_outcomes(passed=1)
    with_()
    run().assert_outcomes(passed=1)
    with_(times="* 3")
    failing("Its operations are not recorded: there is no losses.operations")

    with_()
    run("--zp-regen", "with operations").assert_outcomes(passed=1)
    assert (golden / "losses.operations").exists()
    kept = (golden / "losses.operations").read_bytes()
    run("--zp-regen", "again").assert_outcomes(passed=1)
    assert (golden / "losses.operations").read_bytes() == kept
    run().assert_outcomes(passed=1)

    def command(code, says):
        done = pytester.run(sys.executable, "-m", "zproof", "golden", "check", "golden/losses.safetensors", "--results",
                            "new.safetensors")
        assert done.ret == code
        done.stdout.fnmatch_lines([says])

    command(0, "equal")
    with_(flush=True)
    failing("drift, explained by flushes denormals off -> on", "origin *aten.mul.Tensor, forward")
    command(1, "wrong: drift, explained by flushes denormals off -> on")
    (pytester.path / "new.operations").unlink()
    command(1, "*record those of the results in new.operations to learn the cause")
    with_(times="* 3")
    failing("regression: argument other of aten.mul: 2 -> 3", "loss = (weight.sin() [*] 3).sum()*")
    with_(times=".square()")
    failing("regression: operation replaced: aten.mul -> aten.pow")
    with_(seed=2)
    failing("other inputs: seed 1 -> 2")
    with_(times="* 3", operations="")
    failing("losses.operations has the operations that made it: give operations= to learn the cause")

    with_(times="* 3")
    (golden / "losses.operations").write_bytes(kept[:-30])
    failing("No cause can be named: losses.operations is not the file that losses.safetensors.toml describes")
    run("--zp-regen", "factor 3").assert_outcomes(passed=1)
    run().assert_outcomes(passed=1)


if __name__ == "__main__":
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", __file__, *sys.argv[1:]]))
