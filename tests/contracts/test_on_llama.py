"""Every test of the providers' contract is told on a real llama.cpp server too, or says why it cannot be."""

import re
from pathlib import Path

from tests.contracts.on_llama import LEFT_OUT, TOLD

HERE = Path(__file__).parent


def stories(path: Path) -> set[str]:
    return set(re.findall(r"^(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE))


def test_no_test_of_the_contract_is_forgotten_on_the_real_server() -> None:
    contract = stories(HERE / "test_wires.py") | stories(HERE / "test_providers.py")
    assert not TOLD.keys() & LEFT_OUT.keys()
    assert TOLD.keys() | LEFT_OUT.keys() == contract


def test_what_is_said_to_be_told_there_is_a_story_there() -> None:
    assert set(TOLD.values()) <= stories(HERE.parent / "local_contract.py")
