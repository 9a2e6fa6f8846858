"""Nobody keeps a part of the config that may change under a running gateway: it is read when it is used."""

import ast
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import crossclaw
from crossclaw.app.parts import Resources
from crossclaw.config import Config
from crossclaw.config.current import CurrentConfig, rules_of
from crossclaw.runs.context import ServiceContext
from crossclaw.sessions.run_builder import RunBuilder

SOURCE = Path(crossclaw.__file__).parent
RULES = {
    "Agents", "ToolsConfig", "AgentTools", "ToolPolicy", "SubagentTools", "SandboxConfig", "SendPolicy",
    "CommandsConfig", "AgentToAgent", "NodeCommands", "HttpTools", "GatewayAuth", "AgentDefaults",
}  # fmt: skip
HOLDERS = ("ServiceContext", "RunBuilder", "Resources")
"""Who bring the config along."""


def _constructors() -> Iterator[tuple[str, ast.ClassDef, ast.FunctionDef, set[str]]]:
    for path in sorted(SOURCE.rglob("*.py")):
        room = path.relative_to(SOURCE).as_posix()
        if room.partition("/")[0] in ("config", "cli", "testing"):
            continue
        tree = ast.parse(path.read_text("utf-8"))
        of_config = {
            name.asname or name.name
            for step in tree.body
            if isinstance(step, ast.ImportFrom)
            and (step.module or "").startswith("crossclaw.config")
            for name in step.names
        }
        for made in ast.walk(tree):
            if isinstance(made, ast.ClassDef):
                for part in made.body:
                    if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                        yield room, made, part, of_config


def _kept() -> Iterator[str]:
    for room, made, begin, of_config in _constructors():
        given = [*begin.args.args, *begin.args.kwonlyargs]
        kinds = {each.arg: ast.unparse(each.annotation) for each in given if each.annotation}
        for name, kind in kinds.items():
            if kind in RULES & of_config:
                yield f"{room}: {made.name} keeps {name}: {kind}"
        configs = {
            name if kind in ("Config", "CurrentConfig") else f"{name}.config"
            for name, kind in kinds.items()
            if kind in ("Config", "CurrentConfig", *HOLDERS)
        }
        for step in ast.walk(begin):
            if isinstance(step, ast.Assign) and isinstance(step.targets[0], ast.Attribute):
                taken = [
                    part
                    for part in ast.walk(step.value)
                    if isinstance(part, ast.Attribute) and ast.unparse(part.value) in configs
                ]
                if taken:
                    yield f"{room}: {made.name} keeps {ast.unparse(step.value)}"


@pytest.mark.spec("B3")
def test_no_constructor_keeps_a_part_of_the_config_that_holds_rules() -> None:
    assert sorted(_kept()) == []


def test_the_check_would_notice_one() -> None:
    """Every name in it is a section that there is."""
    known = {
        each.name
        for path in sorted((SOURCE / "config").glob("*.py"))
        for each in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(each, ast.ClassDef)
    }
    assert known >= RULES
    assert {ServiceContext.__name__, RunBuilder.__name__, Resources.__name__} == set(HOLDERS)
    assert len(list(_constructors())) > 50


def test_rules_change_and_everything_else_waits() -> None:
    before = CurrentConfig.of(msgspec.convert(_raw("ana", "exec", 1), Config))
    fresh = msgspec.convert(_raw("bo", "read", 2), Config)

    assert before.take_rules(fresh)
    assert not before.take_rules(fresh), "the same again is no change"
    assert before.epoch == 2
    assert before.tools.deny == ("read",)
    assert before.agents.get("main").tools.deny == ("read",)
    assert before.agents.get("main").name == "ana", "no rule"
    assert before.gateway.port == 1, "no rule"
    assert rules_of(fresh, before)["gateway"].tools.deny == ("read",)
    assert (
        before.redacted()
        == Config(**{name: getattr(before, name) for name in Config.__struct_fields__}).redacted()
    )


def _raw(name: str, denied: str, port: int) -> dict[str, object]:
    return {
        "agents": {"list": [{"id": "main", "name": name, "tools": {"deny": [denied]}}]},
        "tools": {"deny": [denied]},
        "gateway": {"port": port, "tools": {"deny": [denied]}},
    }
