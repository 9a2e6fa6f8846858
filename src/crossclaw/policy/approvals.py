"""Approvals: which commands and tool calls need a person's approval, and the list of those that do not."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Literal

import msgspec

from crossclaw.config.model import Config
from crossclaw.domain.approvals import ExecRule, ProposedCall, StandingGrant
from crossclaw.domain.authority import Authority
from crossclaw.domain.tools import ToolDeclaration
from crossclaw.policy.tools import rule_that_asks

EXEC = "exec"
EVERYBODY = "*"
"""The agent id of a rule that was imported as the default."""

_RUN_OTHERS = """
    ansible ansible-playbook ash at awk bash batch bazel bpftrace bun bundle busybox cargo chroot chrt cmake cpulimit crontab csh dash
    deno docker doas dotnet eatmydata elixir entr env erl expect faketime fakeroot find fish flock gawk gdb ghci git gmake go
    gradle guile iex ionice irb java julia just ksh ld-linux-x86-64.so ltrace lua m4 make mawk meson mono mvn nice ninja node
    nodejs nohup npm npx nsenter numactl ocaml octave osascript parallel perf perl php pip pipx pkexec pnpm podman poetry powershell
    pry pwsh pytest python R Rscript racket rake ruby run-parts runuser sbcl scala scons script sed setarch setpriv setsid sh
    ssh start-stop-daemon stdbuf strace su sudo swift systemd-run taskset tclsh time timeout tox toybox tsx unshare uv uvx
    valgrind watch wine xargs yarn zsh
"""
RUN_OTHERS = frozenset(_RUN_OTHERS.split())
"""Programs that run what their arguments or files say."""
_BY_OPTION = """
    c++ cc clang ed emacs ex g++ gcc gem kubectl ld less logrotate man more nano nc ncat netcat psql rsync scp screen sftp socat sort
    split sqlite ssh-add ssh-agent ssh-keygen tar tcpdump tmux vi view vim zip
"""
RUN_OTHERS_BY_OPTION = frozenset(_BY_OPTION.split())
"""Programs that do so by one of their options. A list entry for one of either with any arguments would allow
everything."""


class CallDecision(msgspec.Struct, frozen=True):
    """What a call needs before it starts."""

    verdict: Literal["run", "ask", "refuse"]
    why: str
    agents: tuple[str, ...] = ()
    """The agents whose list would have to have it."""


NONE = CallDecision("run", "nobody has to be asked")


def agents_of(agent_id: str, authority: Authority) -> tuple[str, ...]:
    """The agents whose rules count: the agent's own, and those of whoever it acts on behalf of."""
    others = sorted({delegator.agent_id for delegator in authority.arms} - {agent_id})
    return (agent_id, *others)


def exec_rule(config: Config, agent_id: str, grants: Iterable[StandingGrant]) -> ExecRule:
    """The stricter of what the config says and what was imported."""
    if not config.agents.has(agent_id):
        return ExecRule("deny", "off")
    rule = config.agents.exec_for(agent_id, config.tools.exec).rule
    for grant in grants:
        if grant.rule is not None and grant.agent_id in (agent_id, EVERYBODY):
            rule = rule.stricter(grant.rule)
    return rule


def decide_call(
    config: Config,
    agent_ids: Sequence[str],
    tool: ToolDeclaration,
    wish: ProposedCall,
    grants: Sequence[StandingGrant],
    also: Sequence[ToolDeclaration] = (),
) -> CallDecision:
    """Decides what a call needs. `grants` are those of these agents that still count, and the imported rules.
    `also`: tools that do a part of what is asked for, `read` of a file that is sent."""
    if tool.name == EXEC:
        needs = [
            _command(exec_rule(config, each, grants), each, wish, grants) for each in agent_ids
        ]
    else:
        needs = []
    for part in (tool, *also):
        if (rule := rule_that_asks(config, agent_ids, part)) is not None:
            missing = tuple(each for each in agent_ids if not _has_tool(each, tool, wish, grants))
            if part is not tool:
                missing = tuple(each for each in missing if not _has_tool(each, part, wish, grants))
            if missing:
                needs.append(CallDecision("ask", f"tools.ask names {rule}", missing))
    if refused := next((need for need in needs if need.verdict == "refuse"), None):
        return refused
    asked = [need for need in needs if need.verdict == "ask"]
    if not asked:
        return NONE
    agents = dict.fromkeys(each for need in asked for each in need.agents)
    return CallDecision("ask", asked[0].why, tuple(agents))


def _command(
    rule: ExecRule, agent_id: str, wish: ProposedCall, grants: Sequence[StandingGrant]
) -> CallDecision:
    if rule.security == "deny":
        return CallDecision(
            "refuse", f"agent {agent_id} may run no commands (tools.exec.security deny)"
        )
    if rule.ask == "always":
        return CallDecision("ask", "tools.exec.ask is always", (agent_id,))
    if rule.security == "full" or _is_listed(agent_id, wish, grants):
        return NONE
    if rule.ask == "off":
        why = f": it has {wish.why_unlisted}" if wish.why_unlisted else ""
        return CallDecision(
            "refuse",
            f"the command is not in the list of agent {agent_id}{why}, and nobody is asked "
            "(tools.exec.security allowlist, ask off)",
        )
    return CallDecision(
        "ask", "the command is not in the list (tools.exec.security allowlist)", (agent_id,)
    )


def _has_tool(
    agent_id: str, tool: ToolDeclaration, wish: ProposedCall, grants: Sequence[StandingGrant]
) -> bool:
    """Whether a tool was allowed for good; for `exec`, the command."""
    if tool.name == EXEC:
        return _is_listed(agent_id, wish, grants)
    return any(
        grant.agent_id == agent_id and grant.tool == tool.name and grant.rule is None
        for grant in grants
    )


def _is_listed(agent_id: str, wish: ProposedCall, grants: Sequence[StandingGrant]) -> bool:
    return wish.can_last and any(
        grant.agent_id == agent_id and covers(grant, wish) for grant in grants
    )


def covers(grant: StandingGrant, wish: ProposedCall) -> bool:
    """Whether a command was allowed for good: the same program with the same arguments, in the same place. An imported
    pattern names programs only; it does not count for those that run others."""
    if (
        grant.rule is not None
        or grant.tool != EXEC
        or wish.program is None
        or grant.program is None
    ):
        return False
    if grant.pattern:
        runs_more = (
            can_run_others(wish.program) or wish.warning is not None
        )  # also by a link to one
        return _fits(wish.program, grant.program) and not runs_more
    same = grant.program == wish.program and grant.arguments == wish.arguments
    same_place = grant.folder == wish.folder and grant.sandboxed == wish.sandboxed
    return same and same_place and grant.digest == wish.digest


def runs_others(program: str) -> bool:
    """Whether a program runs others, by its name without a version: python3.12 is python."""
    return _bare(program) in RUN_OTHERS


def can_run_others(program: str) -> bool:
    """Whether a program can run others, with some arguments."""
    return _bare(program) in RUN_OTHERS | RUN_OTHERS_BY_OPTION


def _bare(program: str) -> str:
    return PurePosixPath(program).name.rstrip("0123456789.-")


def _fits(path: str, pattern: str) -> bool:
    """Whether a path fits a glob of whole paths: `*` stays within a folder, `**` does not. Several `**` in a
    row are one: each would have all of the path tried again."""
    rules = pattern.split("/")
    once = [
        rule for at, rule in enumerate(rules) if not at or (rule, rules[at - 1]) != ("**", "**")
    ]
    return _fit(path.split("/"), once)


def _fit(parts: Sequence[str], rules: Sequence[str]) -> bool:
    if not rules:
        return not parts
    if rules[0] == "**":
        return any(_fit(parts[skip:], rules[1:]) for skip in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], rules[0]) and _fit(parts[1:], rules[1:])
