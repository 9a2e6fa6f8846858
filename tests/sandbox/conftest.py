"""Where bubblewrap is missing these tests fail, and say what to do: a skipped lock is an open one."""

import shutil

import pytest


@pytest.fixture(scope="session", autouse=True)
def bubblewrap() -> str:
    found = shutil.which("bwrap")
    if found is None:
        pytest.fail("bubblewrap is not installed; `make bubblewrap` does it, or says how")
    return found
