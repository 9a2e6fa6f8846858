"""Which commands need a yes: what is one program with fixed arguments, what is in a list, whose rules count."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.config.tools import ExecTool
from crossclaw.domain.addresses import Address
from crossclaw.domain.approvals import (
    SHOWN_CHARS_MAX,
    ExecRule,
    NewApproval,
    ProposedCall,
    StandingGrant,
    shown_call,
    visible,
)
from crossclaw.domain.authority import Authority, Delegator
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.tools import built_in, mcp_declaration
from crossclaw.policy.approvals import agents_of, covers, decide_call, exec_rule, runs_others
from crossclaw.policy.approving_chats import approval_text, chats_to_ask
from crossclaw.policy.shell_words import NotPlain, plain_words
from crossclaw.policy.tools import rule_that_asks
from crossclaw.sandbox.resolving import NoFixedProgram, find_program, names_open_file
from tests.configs import config_of

EXEC = built_in("exec")
LS = ProposedCall(tool="exec", shown="ls -l", program="/usr/bin/ls", arguments=("-l",))


def exec_config(**settings: Any) -> Config:
    return config_of({"tools": {"exec": settings}})


def grant(**more: Any) -> StandingGrant:
    first: dict[str, Any] = {"grant_id": "g", "agent_id": "main", "tool": "exec", "created_at": 1}
    return StandingGrant(**(first | {"program": "/usr/bin/ls", "arguments": ("-l",)} | more))


# ── one program with fixed arguments ───────────────────────────────────────────────────────────


@pytest.mark.spec("B9")
@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("ls -l", ["ls", "-l"]),
        ("  git   log --format='%h %s'  ", ["git", "log", "--format=%h %s"]),
        ('grep "two words" a.txt', ["grep", "two words", "a.txt"]),
        ("echo 'a;b|c>d$e`f*'", ["echo", "a;b|c>d$e`f*"]),
        ("printf '' x", ["printf", "", "x"]),
        ("cat naïve.txt", ["cat", "naïve.txt"]),
    ],
)
def test_a_plain_command_is_its_words(command: str, words: list[str]) -> None:
    assert plain_words(command) == words


@pytest.mark.spec("B9")
@pytest.mark.parametrize(
    "command",
    [
        *(
            "ls; rm -rf x",
            "ls && rm x",
            "ls || rm x",
            "ls & rm x",
            "ls | sh",
            "ls\nrm x",
            "ls\rrm x",
        ),
        *("ls > x", "ls >> x", "sh < x", "ls 2>&1", "cat <(ls)", "cat <<EOF"),
        *(
            "ls $(rm x)",
            "ls `rm x`",
            "ls $HOME",
            'ls "$(rm x)"',
            'ls "`rm x`"',
            'ls "$HOME"',
            "ls $'x'",
        ),
        *(
            "ls *",
            "ls ?",
            "ls [a]",
            "ls {a,b}",
            "ls ~",
            "ls !x",
            "ls # x",
            "ls \\; rm x",
            'ls "a\\"b"',
        ),
        *("(ls)", "{ ls; }", "X=1 ls", "PATH=/tmp ls", "! ls", "ls 'a", 'ls "a', "", "   "),
        *(
            "ls \x1b[2J",
            "ls \u202egpj",
            "ls a\u200bb",
            "ls a\x00b",
            "ls\u00a0-l",
            "ls a^b",
            "ls 'a\nb'",
        ),
    ],
)
def test_what_a_shell_would_do_more_with_is_never_one_program(command: str) -> None:
    with pytest.raises(NotPlain):
        plain_words(command)


# ── which program it is ────────────────────────────────────────────────────────────────────────


def program(folder: Path, name: str, text: str = "#!/bin/sh\n") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, "utf-8")
    path.chmod(0o755)
    return path


@pytest.mark.spec("B9")
def test_a_program_is_found_on_the_path_and_known_by_its_content(tmp_path: Path) -> None:
    tool = program(tmp_path / "bin", "tool")
    search = f"/nowhere:{tool.parent}"

    first = find_program("tool", search, lambda path: False)
    program(tool.parent, "tool", "#!/bin/sh\necho other\n")
    later = find_program("tool", search, lambda path: False)

    assert first.path == later.path == str(tool)
    assert first.digest is not None
    assert first.digest != later.digest


@pytest.mark.spec("B9")
def test_a_program_that_agents_can_write_is_no_fixed_one(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    mine = program(workspace, "mine")
    link = tmp_path / "bin" / "link"
    link.parent.mkdir()
    link.symlink_to(mine)

    def is_open(path: Path) -> bool:
        return path.is_relative_to(workspace)

    for word, search in (
        ("mine", str(workspace)),
        ("./mine", "/usr/bin"),
        (str(mine), "/usr/bin"),
        ("link", str(link.parent)),
        (f"{workspace}/../workspace/mine", "/usr/bin"),
        ("mine", f".:{tmp_path}"),
        ("mine", f":{tmp_path}"),
        ("not-there", "/usr/bin"),
        ("cd", "/usr/bin"),
        (str(tmp_path), "/usr/bin"),
    ):
        with pytest.raises(NoFixedProgram):
            find_program(word, search, is_open)


def test_a_file_that_agents_can_write_is_noticed_among_the_arguments(tmp_path: Path) -> None:
    (tmp_path / "run.py").touch()

    assert names_open_file(["-u", "run.py"], tmp_path, lambda path: True)
    assert names_open_file(["--rcfile=run.py"], tmp_path, lambda path: True)
    assert not names_open_file(["-c", "print(1)"], tmp_path, lambda path: True)
    assert not names_open_file(["run.py"], tmp_path, lambda path: False)


# ── what is in the list ────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("B9")
@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (grant(), True),
        (grant(arguments=("-l", "-a")), False),
        (grant(arguments=()), False),
        (grant(program="/tmp/ls"), False),
        (grant(digest="other"), False),
        (grant(tool="write"), False),
        (grant(program="/usr/bin/*", pattern=True, arguments=None), True),
        (grant(program="/usr/**/ls", pattern=True, arguments=None), True),
        (grant(program="/usr/*", pattern=True, arguments=None), False),
        (grant(program="ls", pattern=True, arguments=None), False),
        (grant(rule=ExecRule("allowlist", "on-miss")), False),
    ],
)
def test_a_command_is_listed_by_its_program_and_arguments(
    entry: StandingGrant, expected: bool
) -> None:
    assert covers(entry, LS) is expected


@pytest.mark.spec("B9")
@pytest.mark.parametrize(
    ("folder", "sandboxed", "expected"),
    [("/work/a", False, True), ("/work/b", False, False), ("/work/a", True, False)],
)
def test_a_command_is_listed_in_the_place_where_it_was_shown(
    folder: str, sandboxed: bool, expected: bool
) -> None:
    """`rm -r build` in one folder is no yes to another, and what a sandbox bounded is no yes to this machine."""
    wish = msgspec.structs.replace(LS, folder=folder, sandboxed=sandboxed)

    assert covers(grant(folder="/work/a"), wish) is expected
    assert not covers(grant(), wish)  # of a store that did not keep the place
    assert covers(grant(program="/usr/bin/*", pattern=True, arguments=None), wish)


@pytest.mark.spec("B9")
@pytest.mark.parametrize(
    "name", ["python3.12", "bash", "env", "xargs", "sudo", "node", "find", "tar"]
)
def test_a_pattern_is_no_yes_to_a_program_that_runs_others(name: str) -> None:
    wish = ProposedCall(tool="exec", shown="x", program=f"/usr/bin/{name}", arguments=("-c", "x"))

    assert runs_others(f"/usr/bin/{name}") or name == "tar"
    assert not covers(grant(program="/usr/bin/**", pattern=True, arguments=None), wish)
    assert covers(grant(program=wish.program, arguments=wish.arguments), wish)


def test_a_pattern_that_was_made_to_take_long_is_compared_at_once() -> None:
    """Each `**` would be tried with every rest of the path: forty of them with some billions."""
    long = grant(program="/**" * 40 + "/no", pattern=True, arguments=None)
    deep = ProposedCall(tool="exec", shown="x", program="/" + "a/" * 30 + "ls", arguments=())

    assert not covers(long, deep)
    assert covers(grant(program="/**/**/ls", pattern=True, arguments=None), deep)


def test_a_pattern_is_no_yes_to_a_link_to_a_program_that_runs_others() -> None:
    grant = StandingGrant(
        grant_id="g", agent_id="main", tool="exec", created_at=1, program="/usr/bin/*", pattern=True
    )
    link = ProposedCall(tool="exec", shown="editor x", program="/usr/bin/editor", arguments=("x",))

    assert covers(grant, link)
    assert not covers(
        grant, msgspec.structs.replace(link, warning="editor runs what its files say")
    )


@pytest.mark.spec("B9")
def test_what_cannot_be_listed_is_not_though_an_entry_fits() -> None:
    wish = msgspec.structs.replace(LS, why_unlisted="a file that agents can change")
    config = exec_config(security="allowlist", ask="off")

    assert decide_call(config, ("main",), EXEC, wish, [grant()]).verdict == "refuse"
    assert decide_call(config, ("main",), EXEC, LS, [grant()]).verdict == "run"


# ── which rule holds ───────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("B9")
@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({}, ExecRule("full", "off")),
        ({"security": "full"}, ExecRule("full", "off")),
        ({"security": "full", "ask": "on-miss"}, ExecRule("full", "on-miss")),
        ({"security": "allowlist"}, ExecRule("allowlist", "on-miss")),
        ({"security": "allowlist", "ask": "off"}, ExecRule("allowlist", "off")),
        ({"ask": "on-miss"}, ExecRule("allowlist", "on-miss")),
        ({"ask": "always"}, ExecRule("full", "always")),
        ({"mode": "ask"}, ExecRule("allowlist", "on-miss")),
        ({"mode": "auto"}, ExecRule("allowlist", "on-miss")),
        ({"mode": "full", "security": "allowlist"}, ExecRule("allowlist", "on-miss")),
        ({"mode": "deny", "security": "full"}, ExecRule("deny", "off")),
    ],
)
def test_security_ask_and_mode_are_one_rule(settings: dict[str, Any], rule: ExecRule) -> None:
    assert msgspec.convert(settings, ExecTool).rule == rule


@pytest.mark.spec("B9")
@pytest.mark.parametrize(
    ("settings", "listed", "verdict"),
    [
        ({}, False, "run"),
        ({"security": "allowlist"}, False, "ask"),
        ({"security": "allowlist"}, True, "run"),
        ({"security": "allowlist", "ask": "off"}, False, "refuse"),
        ({"security": "allowlist", "ask": "always"}, True, "ask"),
        ({"security": "full", "ask": "on-miss"}, False, "run"),
        ({"ask": "always"}, True, "ask"),
        ({"security": "deny", "ask": "always"}, True, "refuse"),
    ],
)
def test_a_command_runs_is_asked_about_or_refused(
    settings: dict[str, Any], listed: bool, verdict: str
) -> None:
    grants = [grant()] if listed else []

    assert decide_call(exec_config(**settings), ("main",), EXEC, LS, grants).verdict == verdict


@pytest.mark.spec("B9", "B3")
def test_the_strictest_of_all_whose_arm_it_is_counts_and_each_has_a_list_of_its_own() -> None:
    config = config_of(
        {
            "agents": {
                "list": [
                    {"id": "main", "tools": {"exec": {"security": "allowlist"}}},
                    {"id": "ops"},
                ]
            }
        }
    )
    agents = agents_of("ops", Authority(arms=frozenset({Delegator("main"), Delegator("ops")})))

    alone = decide_call(config, ("ops",), EXEC, LS, [])
    missed = decide_call(config, agents, EXEC, LS, [grant(agent_id="ops")])
    allowed = decide_call(config, agents, EXEC, LS, [grant(agent_id="main")])
    of_nobody = decide_call(config, ("ops", "gone"), EXEC, LS, [])

    assert agents == ("ops", "main")
    assert (alone.verdict, missed.verdict, missed.agents) == ("run", "ask", ("main",))
    assert (allowed.verdict, of_nobody.verdict) == ("run", "refuse")


@pytest.mark.spec("B9")
def test_an_imported_rule_only_makes_it_stricter() -> None:
    rules = [
        grant(agent_id="*", rule=ExecRule("allowlist", "on-miss")),
        grant(agent_id="main", rule=ExecRule("full", "always")),
        grant(agent_id="ops", rule=ExecRule("deny", "off")),
    ]

    assert exec_rule(Config(), "main", rules) == ExecRule("allowlist", "always")
    assert exec_rule(exec_config(security="deny"), "main", rules).security == "deny"


@pytest.mark.spec("B9")
@pytest.mark.parametrize(
    ("rules", "tool", "expected"),
    [
        (["write"], built_in("write"), "write"),
        (["write"], built_in("edit"), None),
        (["group:fs"], built_in("edit"), "group:fs"),
        (["mcp:*"], mcp_declaration("github__create"), "group:plugins"),
        (["mcp:github"], mcp_declaration("github__create"), "github__*"),
        (["mcp:github/create"], mcp_declaration("github__create"), "github__create"),
        (["mcp:github/list"], mcp_declaration("github__create"), None),
        (["mcp:*"], built_in("write"), None),
    ],
)
def test_tools_ask_names_tools_groups_and_mcp_servers(
    rules: list[str], tool: Any, expected: str | None
) -> None:
    assert rule_that_asks(config_of({"tools": {"ask": rules}}), ("main",), tool) == expected
    agents = {"list": [{"id": "main"}, {"id": "ops", "tools": {"ask": rules}}]}
    assert rule_that_asks(config_of({"agents": agents}), ("main", "ops"), tool) == expected
    assert rule_that_asks(config_of({"agents": agents}), ("main",), tool) is None


# ── what is shown, and to whom ─────────────────────────────────────────────────────────────────


def test_what_nobody_can_see_is_shown_as_an_escape() -> None:
    assert visible("rm -rf \u202etxt.exe\x1b[2K\nnext") == "rm -rf \\u202etxt.exe\\x1b[2K\nnext"


def test_a_long_call_is_shown_with_the_digest_of_the_whole() -> None:
    shown = shown_call("write", "x" * SHOWN_CHARS_MAX * 2)

    assert len(shown) < SHOWN_CHARS_MAX + 100
    assert "more characters; sha256 " in shown


def asked(wish: ProposedCall = LS) -> NewApproval:
    return NewApproval(
        approval_id="0123456789abcdef", tool_use_id="c", wish=wish, agents=("main",), expires_at=9
    )


def test_a_chat_reads_the_command_its_program_and_how_to_answer() -> None:
    key = SessionKey.main("main")

    text = approval_text(asked(), key)
    once = approval_text(asked(msgspec.structs.replace(LS, why_unlisted="a pipe")), key)
    long = approval_text(asked(msgspec.structs.replace(LS, shown="x" * 2_000)), key)

    assert "```\nls -l\n```\nProgram: /usr/bin/ls" in text
    assert "/approve 01234567 allow-always" in text
    assert "allow-always" not in once
    assert "too long for a message" in long


def test_the_owner_reads_for_whom_it_is_asked_where_it_is_not_for_him() -> None:
    key = SessionKey.main("main")

    assert "have not asked" not in approval_text(asked(), key)
    assert "⚠️ You have not asked for it yourself; it is for telegram 7\\n8." in approval_text(
        asked(), key, "telegram 7\n8"
    )


def test_no_command_or_folder_writes_lines_of_its_own_into_the_owners_chat() -> None:
    forged = "Program: /usr/bin/ls\nAnswer with: /approve 99999999 allow-once"
    command = f"true\n```\n{forged}\n````\n{forged}"
    wish = msgspec.structs.replace(
        LS, shown=command, program=None, folder=f"/w/a\n{forged}", why_unlisted="more lines"
    )

    lines = approval_text(asked(wish), SessionKey.main("main")).split("\n")

    fence = lines[1]
    assert fence == "`````"  # longer than any in the command
    assert [at for at, line in enumerate(lines) if fence in line] == [1, 9]
    assert all(line.startswith("│ ") for line in lines[3:9])
    assert [line for line in lines if line.startswith("Program:")] == []
    assert [line for line in lines if line.startswith("Answer with:")] == [
        "Answer with: /approve 01234567 allow-once or /approve 01234567 deny"
    ]


@pytest.mark.parametrize(
    ("settings", "owner", "expected"),
    [
        ({}, True, ["tg:group", "tg:ana"]),
        ({}, False, ["tg:ana"]),
        ({"enabled": False}, True, []),
        ({"mode": "targets", "targets": [{"channel": "tg", "to": "x"}]}, True, ["tg:x"]),
        ({"mode": "both", "targets": [{"channel": "away", "to": "x"}]}, False, ["tg:ana"]),
        ({"agentFilter": ["ops"]}, True, []),
        ({"sessionFilter": ["main:main"]}, False, ["tg:ana"]),
        ({"sessionFilter": ["other"]}, False, []),
        ({"sessionFilter": ["other", "main:main"]}, False, ["tg:ana"]),
    ],
)
def test_only_the_owners_chats_are_told(
    settings: dict[str, Any], owner: bool, expected: list[str]
) -> None:
    config = config_of(
        {"approvals": {"exec": settings}, "commands": {"ownerAllowFrom": ["tg:ana", "ben"]}}
    )

    found = chats_to_ask(
        config, SessionKey.main("main"), Address("tg", "group"), ("tg",), owner=owner
    )

    assert [f"{each.channel}:{each.to}" for each in found] == expected
