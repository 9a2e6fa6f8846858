"""Every channel has named itself to the contract, and nothing of it is left out unsaid."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from crossclaw.channels.registry import list_manifests
from tests.channels.contract import ChannelContract
from tests.channels.drivers import DRIVERS
from tests.channels.driving import ChannelDriver
from tests.channels.irc.driver import IrcDriver

HERE = Path(__file__).parent
NAMES = {each.name for each in list_manifests()} | {"irc"}
ALL: list[type[ChannelDriver]] = [*DRIVERS, IrcDriver]  # the last is an example's
LACKS = {
    "signal": {"threads": "Signal has none", "brought again": "signal-cli confirms first and keeps nothing"},
    "whatsapp": {"threads": "WhatsApp has none", "groups": "the Cloud API has none"},
    "imessage": {"threads": "replies are no chats of their own"},
    "discord": {"a first message kept": "bots are not told of chats that began while they were away"},
    "irc": {
        "threads": "IRC has none",
        "brought again": "IRC keeps nothing",
        "a first message kept": "IRC keeps nothing",
        "marked answers": "IRC has none",
        "files": "IRC has none",
    },
}  # fmt: skip
"""What the contract does not ask of a channel, because its platform does not have it."""
OVERRIDDEN = {"TestIrc": {"test_a_failed_send_is_settled_by_what_the_failure_means"}}
"""Each says in its docstring what is different."""


def contract_classes() -> Iterator[ast.ClassDef]:
    for path in sorted(HERE.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and "ChannelContract" in map(ast.unparse, node.bases):
                yield node


@pytest.mark.spec("N2", "N3", "N4", "N5", "N6", "N7")
def test_every_channel_runs_the_whole_contract() -> None:
    found = {each.name: each for each in contract_classes()}
    expected = {f"test{name}" for name in NAMES}

    assert expected <= {name.lower() for name in found}
    assert {driver.name for driver in ALL} == NAMES
    changed = {
        name: {
            each.name
            for each in node.body
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
            and each.name.startswith("test_")
        }
        for name, node in found.items()
    }
    assert {name: tests for name, tests in changed.items() if tests} == OVERRIDDEN
    marked = [ast.unparse(each) for node in found.values() for each in node.decorator_list]
    assert not [each for each in marked if "skip" in each or "xfail" in each]


@pytest.mark.parametrize("driver", ALL, ids=lambda each: each.name)
def test_what_the_contract_does_not_ask_of_a_channel_is_named_with_its_reason(
    driver: type[ChannelDriver],
) -> None:
    own = vars(driver)
    has = {
        "groups": driver.has_groups,
        "threads": driver.has_threads,
        "brought again": driver.brings_again,
        "a first message kept": driver.keeps_first,
        "marked answers": driver.answers_are_marked,
        "files": driver.traits.files,
    }

    assert {name for name, there in has.items() if not there} == set(LACKS.get(driver.name, {}))
    assert driver.has_threads == ("say_in_thread" in own)
    assert driver.traits.files == ("say_with_picture" in own) == ("files_seen" in own)
    assert driver.answers_are_marked == ("answered" in own) == driver.traits.replies
    assert (driver.traits.typing_every_s is not None) == ("typing_seen" in own)
    assert driver.traits.reactions == ("reactions_seen" in own)


def test_the_contract_has_no_test_that_is_left_out() -> None:
    source = (HERE / "contract.py").read_text("utf-8") + (HERE / "roads.py").read_text("utf-8")
    assert "pytest.skip" not in source
    assert "xfail" not in source
    assert len([name for name in dir(ChannelContract) if name.startswith("test_")]) >= 18
