"""Which session is an agent's main one is decided in one place: the config may say that all agents share one."""

import ast
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.domain.keys import SHARED, SessionKey

SRC = Path(__file__).parents[2] / "src" / "crossclaw"
DECIDES = "config/model.py"
MAY_SPELL = {
    "domain/keys.py",  # the key itself
    DECIDES,
    "door/resolver.py",  # an agent's id as a caller writes it; what is meant by it is asked at the end
    "sessions/send.py",  # handed to the resolver
    "gateway/hello.py",  # the name that clients know; they see no other
    "cli/naming.py",  # a client: the gateway decides what is meant
}
"""The files that may call `SessionKey.main`, each with its reason."""


def nodes() -> Iterator[tuple[str, ast.AST]]:
    for path in sorted(SRC.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            yield path.relative_to(SRC).as_posix(), node


def test_whether_all_agents_share_one_session_is_asked_in_one_file() -> None:
    def asks(node: ast.AST) -> bool:
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        return any(
            isinstance(each, ast.Attribute) and each.attr == "scope" for each in sides
        ) and any(isinstance(each, ast.Constant) and each.value == "global" for each in sides)

    assert {name for name, node in nodes() if asks(node)} == {DECIDES}


def test_a_main_session_is_spelled_out_only_where_it_is_not_looked_up() -> None:
    def spells(node: ast.AST) -> bool:
        return isinstance(node, ast.Attribute) and ast.unparse(node) in (
            "SessionKey.main",
            "cls.main",
        )

    assert {name for name, node in nodes() if spells(node)} == MAY_SPELL


def config_of(scope: str) -> Config:
    agents = {"list": [{"id": "work", "default": True}, {"id": "home"}]}
    return msgspec.convert({"agents": agents, "session": {"scope": scope}}, Config)


@pytest.mark.spec("K5")
def test_the_shared_session_is_the_main_one_of_every_agent_and_the_default_agent_answers_there() -> (
    None
):
    config = config_of("global")
    found = [config.main_key(each) for each in ("work", "home")]

    assert {(key.text, key.agent_id) for key in found} == {(SHARED, "work")}


@pytest.mark.parametrize("scope", ["global", "per-sender"])
@pytest.mark.parametrize(
    "text", ["agent:home:desk", "agent:home:telegram:group:1", "cron:1", "agent:home:main:thread:1"]
)
def test_every_other_session_is_itself(scope: str, text: str) -> None:
    assert config_of(scope).meant_key(SessionKey.parse(text)).text == text


def test_without_a_shared_session_each_agent_has_its_own() -> None:
    assert config_of("per-sender").main_key("home") == SessionKey.main("home")
