"""zproof for pytest: fixtures that are bound to a test's seeds and folder, a marker, and four options.

The fixture ``zproof`` is a :class:`Zproof`, ``zproof_run`` a :class:`ZproofRun`. The marker has the words of ``zproof.judge`` (op, dtype, fills, accept,
framework, device) for a test or a class of them; with a list of dtypes there is a test for each. A failing test reports
how to run it again, with its seeds. Where ``GITHUB_ACTIONS`` is set, a failing test that has the fixture is annotated
at its line, and the tests that have it are in the job summary.

Options:
    --zp-seed N: seed of all inputs (1). A test with golden files keeps the seed that they were recorded with.
    --zp-second-seed N: seed of the second inputs of a callable that is judged (drawn).
    --zp-save-failing DIR: keep the inputs and both sides' results of failures, as safetensors.
    --zp-regen REASON: record golden files instead of comparing with them, with this reason; refused where ``CI``
        is set.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import re
import shlex
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from . import _zproof
from .elements import read_array
from .golden import GoldenFile, recorded_seed, refuse_in_ci
from .tensor_files import write_arrays
from .testing import assert_step_close

__all__ = ["Zproof", "ZproofRun", "BitsChanged"]

_MARKER_WORDS = ("op", "dtype", "fills", "accept", "framework", "device")
_LARGEST_SEED = 2**64 - 1


class BitsChanged(UserWarning):
    """Results are within the bound of a golden file, and have other bits."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("zproof", "bit-for-bit judging of optimizer steps")
    group.addoption("--zp-seed", metavar="N", default=None,
                    help="seed of the inputs that the fixture zproof makes (1, or that of the test's golden files)")
    group.addoption("--zp-second-seed", metavar="N", default=None,
                    help="seed of the second inputs of a callable that the fixture zproof judges (drawn)")
    group.addoption("--zp-save-failing", metavar="DIR", default=None,
                    help="keep the inputs and results of failures in this folder, as safetensors")
    group.addoption("--zp-regen", metavar="REASON", default=None,
                    help="record golden files instead of comparing with them, with this reason")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "zproof(op, dtype, fills, accept, framework, device): arguments of the fixture "
                            "zproof; a list of dtypes makes a test of each")
    for option in ("--zp-seed", "--zp-second-seed"):
        text = config.getoption(option)
        if text is not None and (not re.fullmatch("[0-9]+", text) or int(text) > _LARGEST_SEED):
            raise pytest.UsageError(f"{option} is {text!r} (inputs are made from a number of 64 bits); give 0 to "
                                    f"{_LARGEST_SEED}")
    reason = config.getoption("--zp-regen")
    if reason is not None:
        if not reason.strip():
            raise pytest.UsageError("--zp-regen has no reason (the history must explain why the numbers "
                                    "changed); give one")
        try:
            refuse_in_ci()
        except ValueError as error:
            raise pytest.UsageError(f"--zp-regen: {error}") from None


def pytest_report_header(config: pytest.Config) -> str:
    return f"zproof: {_zproof.version}, contract {_zproof.contract_version}, seed {config.getoption('--zp-seed') or 1}"


def _marker_of(definition: Any) -> dict[str, Any]:
    """The words of the nearest marker zproof. Errors: pytest.UsageError for one it does not have."""
    marker = definition.get_closest_marker("zproof")
    if marker is None:
        return {}
    if marker.args:
        raise pytest.UsageError(f"{definition.nodeid}: the marker zproof takes words (op='adamw'), not {marker.args!r} "
                                "(positional arguments are ambiguous); name them")
    for word in marker.kwargs:
        if word not in _MARKER_WORDS:
            raise pytest.UsageError(f"{definition.nodeid}: the marker zproof has no {word!r} (it is unknown); it "
                                    "can have " + ", ".join(_MARKER_WORDS))
    return dict(marker.kwargs)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    dtype = _marker_of(metafunc.definition).get("dtype")
    if isinstance(dtype, (list, tuple)):
        if "zproof_dtype" not in metafunc.fixturenames:
            raise pytest.UsageError(f"{metafunc.definition.nodeid}: the marker zproof has several dtypes and the test "
                                    "no fixture zproof (it would run once); take the fixture")
        metafunc.parametrize("zproof_dtype", dtype)


@pytest.fixture
def zproof_dtype(request: pytest.FixtureRequest) -> str | None:
    """The dtype of this test, of those its marker has."""
    return _marker_of(request.node).get("dtype")


@pytest.fixture
def zproof(request: pytest.FixtureRequest, zproof_dtype: str | None) -> Zproof:
    """judge, assert_step_close and golden, bound to the test's seeds and folder."""
    return Zproof(request, zproof_dtype)


class Zproof:
    """Object passed to a test by the fixture ``zproof``.

    Attributes:
        seed: of all inputs of this test (``--zp-seed``, or that of its golden files).
        dtype: of this test, from its marker, or None.
        rng: a numpy generator of its own for every test, from the seed and the test's id: independent of other tests.
        replay: the line that runs this test again.
    """

    def __init__(self, request: pytest.FixtureRequest, dtype: str | None) -> None:
        node = request.node
        self._request = request
        self._node = node
        self._words = _marker_of(node)
        self.dtype = dtype
        self._golden = node.path.parent / "golden"
        asked = node.config.getoption("--zp-seed")
        renews = asked is not None and node.config.getoption("--zp-regen") is not None
        kept = None if renews else recorded_seed(self._golden, node.nodeid)
        self.seed = int(asked or 1) if kept is None else kept
        self._again = f"python -m pytest {shlex.quote(node.nodeid)} --zp-seed {self.seed}"
        self.replay = self._again
        key = int.from_bytes(hashlib.sha256(node.nodeid.encode()).digest()[:8], "little")
        self.rng = np.random.Generator(np.random.Philox(key=[self.seed, key]))
        self._kept = 0
        node.stash[_HERE] = self

    def judge(self, fn: Callable[..., Any], op: str | None = None, dtype: str | None = None, **words: Any) -> Any:
        """:func:`zproof.judge` with the marker's words and the test's seeds; returns the verdict if everything passed.

        Raises:
            AssertionError: not everything passed; the message is the report.
            TypeError: neither the marker nor the call has an op.
        """
        __tracebackhide__ = True
        from .judge import draw_seed, judge  # with everything behind it

        given = {**self._words, **words}
        given.pop("dtype", None)
        op = op if op is not None else given.pop("op", None)
        given.pop("op", None)
        if op is None:
            raise TypeError("zproof.judge has no operation (it is not derived from the callable); "
                            "give op='adamw', here or in the marker")
        dtype = dtype or self.dtype
        if dtype is not None:
            given["dtype"] = dtype
        given.setdefault("seed", self.seed)
        second = self._node.config.getoption("--zp-second-seed")
        if given.get("second_seed") is None:
            given["second_seed"] = draw_seed() if second is None else int(second)
        self.replay = f"{self._again} --zp-second-seed {given['second_seed']}"
        given.setdefault("replay", self.replay)
        verdict = judge(fn, op, **given)
        if not verdict.passed:
            if folder := self._folder():
                self._saved(*verdict.save(str(folder)))
            failing = [one for one in verdict.results if one["status"] != "pass"]
            self._node.user_properties.append(("zproof_failure", f"{failing[0]['id']}\n{failing[0]['details']}"))
            raise AssertionError(str(verdict))
        return verdict

    def assert_step_close(self, actual: Any, expected: Any, **words: Any) -> None:
        """:func:`zproof.assert_step_close`. With ``--zp-save-failing`` both sides of a failure are kept in one file, as
        ``actual.NAME`` and ``expected.NAME``."""
        __tracebackhide__ = True
        try:
            assert_step_close(actual, expected, **words)
        except AssertionError:
            self._keep(actual, expected)
            raise

    def operations(self, model: Any = None) -> Any:
        """:func:`zproof.torch.operations`, for ``golden``.

            with zproof.operations() as recorder:
                losses = train()
            zproof.golden("losses", {"loss": losses}, operations=recorder)

        It writes a file in the test's ``tmp_path``.
        """
        from .torch import operations

        return operations(self._request.getfixturevalue("tmp_path") / "zproof.operations", model)

    def golden(self, name: str, arrays: Mapping[str, Any], *, operations: Any = None, **words: Any) -> None:
        """Asserts that arrays are those of ``golden/NAME.safetensors`` beside the test's file, bit for bit.

        With ``--zp-regen`` the file is recorded from these arrays instead, unless it has their bits;
        ``NAME.safetensors.toml`` beside it keeps the reasons. Commit both. With ``operations`` it keeps
        ``NAME.operations`` too, and a failure says "drift, explained by" a library or setting, "other inputs" or
        "regression", with the first operation whose bits differ.

        Args:
            name: of the file.
            arrays: by their names.
            operations: the recorder of the operations that made the arrays, closed; or its file.
            words: ``ulps``, ``bound``, ``rtol`` and ``atol``, ``equal_nan`` ... as of :func:`zproof.assert_step_close`.
                If bits changed within such a bound the test passes with a warning, ``BitsChanged``.

        Raises:
            AssertionError: they differ, or there is no valid golden file.
        """
        __tracebackhide__ = True
        if not re.fullmatch(r"[A-Za-z0-9][\w.\[\]-]*", name):
            raise ValueError(f"golden got the name {name!r} (it becomes the name of a file); use letters, "
                             "digits, - and _")
        path = self._golden / f"{name}.safetensors"
        recording = getattr(operations, "path", operations)
        file = GoldenFile(path, self._node.nodeid, self.seed, None if recording is None else pathlib.Path(recording))
        reason = self._node.config.getoption("--zp-regen")
        if reason is not None:
            if file.renew(arrays, reason):
                self._node.user_properties.append(("zproof_golden", str(path)))
            return
        try:
            same = file.check(arrays, **words)
        except AssertionError:
            self._keep(arrays, None)
            raise
        if not same:
            warnings.warn(f"{path.name}: bits changed within the bound that this test allows", BitsChanged,
                          stacklevel=2)

    def _folder(self) -> pathlib.Path | None:
        """Of this test, under --zp-save-failing."""
        chosen = self._node.config.getoption("--zp-save-failing")
        if chosen is None:
            return None
        plain = re.sub(r"[^\w.-]+", "-", self._node.nodeid).strip("-")[:100]
        mark = hashlib.sha256(self._node.nodeid.encode()).hexdigest()[:8]  # two ids may now be equal
        return pathlib.Path(chosen) / f"{plain}-{mark}"

    def _keep(self, actual: Any, expected: Any) -> None:
        if (folder := self._folder()) is None:
            return
        arrays: dict[str, Any] = {}
        for side, value in (("actual", actual), ("expected", expected)):
            for name, array in _leaves(value, side):
                try:
                    arrays[name] = read_array(array, name, to_host=True, to_dense=True)
                except TypeError:
                    continue  # the assertion reports the error
        path = folder / f"assert-{self._kept}.safetensors"
        self._kept += 1
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_arrays(path, arrays, {"test": self._node.nodeid, "seed": str(self.seed)})
        except (OSError, ValueError) as error:
            self._saved(f"nothing: {error}")
        else:
            self._saved(str(path))

    def _saved(self, *paths: str) -> None:
        self._node.user_properties += [("zproof_saved", path) for path in paths]


_HERE = pytest.StashKey[Zproof]()


@pytest.fixture
def zproof_run(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> ZproofRun:
    """A folder for the recording of a training, which is judged at the end of the test."""
    return ZproofRun(request.node, tmp_path)


class ZproofRun:
    """Object passed to a test by the fixture ``zproof_run``: the test trains and records into ``folder``.

        def test_training(zproof_run):
            train(zproof_run.folder)

    A test that passes without a call of :meth:`judge` or :meth:`ab` is judged at its end, and fails if a step is wrong or
    nothing was recorded.

    Attributes:
        folder: for :func:`zproof.torch.record`, in the test's ``tmp_path``; it does not exist yet.
    """

    def __init__(self, node: pytest.Item, path: pathlib.Path) -> None:
        self._node = node
        self._path = path
        self.folder = path / "recording"
        self.judged = False
        node.stash[_RUN] = self

    def judge(self, folder: str | os.PathLike[str] | None = None, **words: Any) -> Any:
        """:func:`zproof.judge_run` of ``folder``, or of another one; returns the verdict if everything is right.

        Raises:
            AssertionError: a step is wrong, nothing was recorded or could be judged; the message has the first difference.
        """
        __tracebackhide__ = True
        from .run_judge import judge_run

        self.judged = True
        if folder is None and not self.folder.exists():
            raise AssertionError(f"nothing was recorded ({self.folder} does not exist); pass zproof_run.folder to "
                                 "zproof.torch.record")
        return self._checked(judge_run(self.folder if folder is None else folder, **words))

    def ab(self, train: Callable[..., Any], a: Mapping[str, Any], b: Mapping[str, Any], **words: Any) -> Any:
        """:func:`zproof.ab` in the test's folder; returns the verdict if the trainings are equal, or within the bounds.

        Raises:
            AssertionError: they differ, or nothing could be compared; the message has the first difference.
        """
        __tracebackhide__ = True
        from .run_judge import ab

        self.judged = True
        return self._checked(ab(train, a, b, **{"folder": self._path / "ab", "show": False, **words}))

    def _checked(self, verdict: Any) -> Any:
        __tracebackhide__ = True
        if verdict.passed:
            return verdict
        said = verdict.difference or "nothing was judged:\n" + verdict.text
        self._node.user_properties.append(("zproof_failure", said))
        raise AssertionError(said)


_RUN = pytest.StashKey[ZproofRun]()


@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, None]:
    outcome = yield
    run = pyfuncitem.stash.get(_RUN, None)
    if run is None or run.judged or outcome.excinfo is not None:
        return
    try:
        run.judge()
    except (AssertionError, ValueError, OSError, RuntimeError) as error:
        outcome.force_exception(error)


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{name}.{key}")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{name}.{index}")
    elif value is not None:
        yield name, value


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    outcome = yield
    report = outcome.get_result()
    fixture = item.stash.get(_HERE, None)
    if report.when == "call" and report.failed and fixture is not None:
        lines = [f"replay: {fixture.replay}"]
        lines += [f"saved: {path}" for name, path in item.user_properties if name == "zproof_saved"]
        report.sections.append(("zproof", "\n".join(lines)))
    if report.when == "call" and (fixture is not None or _RUN in item.stash):
        report.user_properties.append(("zproof_test", item.nodeid))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    made = [path for reports in terminalreporter.stats.values() for report in reports
            for name, path in getattr(report, "user_properties", []) if name == "zproof_golden"
            and getattr(report, "when", "") == "call"]
    for path in made:
        terminalreporter.write_line(f"golden file recorded: {path} (review it, and commit it with its .toml)")
    if os.environ.get("GITHUB_ACTIONS"):
        _annotate(terminalreporter)


_MOST_ANNOTATIONS = 10  # GitHub drops the others of a step


def _annotate(terminalreporter: Any) -> None:
    """Annotations on standard output, and the job summary, of all tests with the fixture."""
    ours = [(outcome, report) for outcome in ("failed", "passed")
            for report in terminalreporter.stats.get(outcome, []) if "zproof_test" in dict(report.user_properties)]
    rows = []
    for outcome, report in ours:
        failure = _failure_of(report) if outcome == "failed" else ""
        if failure and len(rows) < _MOST_ANNOTATIONS:
            terminalreporter.ensure_newline()
            terminalreporter.write(_zproof.github_command("error", *_place_of(terminalreporter, report),
                                                          f"zproof: {report.nodeid}", failure))
        rows.append([outcome, report.nodeid, failure.partition("\n")[0], failure])
    if rows and (problem := _zproof.append_job_summary("zproof in pytest", rows)):
        terminalreporter.write_line(f"zproof: {problem}")


def _failure_of(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    said = dict(report.user_properties).get("zproof_failure")
    return str(said or getattr(crash, "message", report.longreprtext))


def _place_of(terminalreporter: Any, report: pytest.TestReport) -> tuple[str, int]:
    """File and line of the assertion, if it is in the test's file, else of the test."""
    name, line, _ = report.location
    file = terminalreporter.config.rootpath / name
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None and pathlib.Path(crash.path) == file:
        return str(file), crash.lineno
    return str(file), (line or 0) + 1
