"""Whoever lacks an extra is told what brings it, also in a clone: said in one place, and true."""

import re
import tomllib
from pathlib import Path

import pytest

from crossclaw.disk.extras import LOCK, how_to_install, how_to_install_there

ROOT = Path(__file__).parents[2]
FOR_WHOM = {"dev": "developers", "run": "what make run has", "local": "make local-model"}
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]


@pytest.mark.parametrize("extra", sorted(EXTRAS.keys() - FOR_WHOM))
def test_what_make_extras_installs_has_every_package_of_an_extra(extra: str) -> None:
    pinned = set(re.findall(r"^([\w.-]+)(?:\[.*])?==", (ROOT / LOCK).read_text("utf-8"), re.M))
    for wanted in EXTRAS[extra]:
        name = re.split(r"[\[>=]", wanted)[0]
        assert name in pinned, f"make lock writes {LOCK}"


def test_in_a_clone_it_is_make_and_elsewhere_pip(tmp_path: Path) -> None:
    assert how_to_install("mcp") == f"make -C {ROOT} extras"
    assert how_to_install("postgres") == f"make -C {ROOT} postgres-driver"
    assert how_to_install("mcp", tmp_path) == "pip install 'crossclaw[mcp]'"
    assert "make extras" in how_to_install_there("mcp")
    assert "crossclaw[mcp]" in how_to_install_there("mcp")
    assert "\nextras: " in (ROOT / "Makefile").read_text("utf-8")


def test_nobody_else_says_how_an_extra_is_installed() -> None:
    """It would be wrong in one of the two places."""
    said = re.compile(r"pip install ['\"]+crossclaw\[")
    source = ROOT / "src" / "crossclaw"
    found = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if said.search(" ".join(path.read_text("utf-8").split()))
    }
    assert found == {"disk/extras.py", "cli/chat.py"}, "chat: a help text; make run has that one"
