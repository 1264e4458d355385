"""Fixtures of the tests that run other tests with the plug-in of zproof for pytest."""

import pytest


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.fixture
def run(pytester):
    """Runs these tests with the plug-in; a run each in a process of its own."""

    def run_tests(*words):
        return pytester.runpytest_subprocess("-p", "zproof.pytest_plugin", *words)

    return run_tests
