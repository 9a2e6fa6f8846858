"""What the run against OpenClaw's real clients asks for: everything that is offered, or the reason why not."""

import re
from pathlib import Path

import pytest

from crossclaw.cli.protocol import known_methods

CONFORMANCE = Path(__file__).parents[1] / "conformance"


@pytest.mark.spec("G2")
async def test_every_method_is_on_the_list_of_what_the_conformance_run_asks_for() -> None:
    texts = [(CONFORMANCE / name).read_text("utf-8") for name in ("everything.py", "published.py")]
    asked = set(re.findall(r'"([\w.-]+)"', "\n".join(texts)))
    missing = sorted({method.name for method in await known_methods()} - asked - {"connect"})

    assert not missing, f"add them to tests/conformance/everything.py: {missing}"
