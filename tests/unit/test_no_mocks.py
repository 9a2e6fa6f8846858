"""Tests use the gateway as its users do, with the doubles of `crossclaw.testing`. What they replace in our own modules is listed here, with
its reason: a fault at an edge, a rule that is taken away to see a test turn red, or a count. A limit that is made small needs no line."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]

FAULTS = {
    "channels/matrix/test_vault.py: talker.host.save_cursor",
    "cli/test_a_shared_ledger.py: stream.isatty",
    "cli/test_watching.py: crossclaw.cli.watch.terminal_columns",
    "cluster/test_hints.py: store.PgWire",
    "cluster/test_opening.py: store.PgWire",
    "cluster/test_server.py: PgWire.script",
    "cluster/test_server.py: PgWire.server_version",
    "cluster/test_server.py: store.PgWire",
    "cluster/test_several_writers.py: store.PgWire",
    "cluster/test_two_gateways.py: a.lanes._under_way.find",
    "flows/interposing.py: gateway.ledger.commit",
    "flows/test_cron.py: crossclaw.schedule.times.ZoneInfo",
    "flows/test_pieces.py: DeliverySender._errand_of",
    "sandbox/test_workspace_room.py: keeper.free_room",
    "unit/test_cli_log.py: crossclaw.cli.logfile.time.monotonic",
    "unit/test_cli_screens.py: crossclaw.cli.tables.on_terminal",
    "unit/test_transcript_trouble.py: files.os",
    "unit/test_transcript_trouble.py: ledger.name",
}
"""At an edge: the ledger and its database, the disk, the terminal, the clock, or the moment at which a process dies."""

CONTROLS = {
    "cluster/test_gateways.py: taking_over._queue_again",
    "cluster/test_hints.py: writer.payload_of",
    "cluster/test_several_writers.py: entries_rules.hold",
    "cluster/test_several_writers.py: locking.sorted",
    "cluster/test_several_writers.py: writer.locks_for",
    "proof/test_cascades.py: crossclaw.sessions.intake.one_hop_less",
    "proof/test_exchanges.py: crossclaw.sessions.exchange.next_step",
    "proof/test_exchanges.py: f'crossclaw.gateway.run_events.{name}'",
    "proof/test_visibility.py: f'crossclaw.door.resolver.{name}'",
}
"""One rule is taken away: a test beside it must turn red."""

COUNTS = {
    "cluster/test_server.py: PgWire.run_pipelined",
    "flows/test_a_runs_own_words.py: gateway.ledger.list_entries",
    "flows/test_jobs_have_makers.py: times._walked",
}
"""All is done as ever, and counted."""

RIGS = {
    "cluster/conftest.py: GatewayLease.lease_s",
    "cluster/conftest.py: PostgresMembership.lease_s",
    "cluster/test_server.py: writer.PostgresWriter._connected.__defaults__",
    "databases.py: opening._open_file",
    "flows/test_tools_are_declared.py: building.session_methods",
    "mutants/test_making.py: trying._try",
    "yielding.py: SqliteReads.name",
}
"""Whole suites are run otherwise: on PostgreSQL, with reads that give way to others, with short leases, with a session tool more; or it is no module of the gateway."""

BUILDS = {"crash/ticks.py", "crash/victim.py", "faults/builds.py", "faults/traps.py"}
"""Control builds, each a process of its own: they write into our modules without a `MonkeyPatch`."""


def replaced_in(where: str, tree: ast.Module) -> Iterator[str]:
    """Functions and methods of ours, or of an object that the test has, that `setattr` of a `MonkeyPatch` replaces."""
    theirs = set(_imported(tree))
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="setattr"), args=[owner, named, _, *_]):
                target, is_named = f"{ast.unparse(owner)}.{_text(named)}", False
            case ast.Call(func=ast.Attribute(attr="setattr"), args=[named, _]):
                target, is_named = _text(named), True
            case _:
                continue
        first, last = target.partition(".")[0], target.rpartition(".")[2]
        is_ours = "crossclaw." in target if is_named else first not in theirs
        if is_ours and not last.isupper():
            yield f"{where}: {target}"


def writes_into_ours(tree: ast.Module) -> bool:
    ours = {
        each.asname or each.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("crossclaw")
        for each in node.names
    }
    return any(
        isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id in ours
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
    )


def _imported(tree: ast.Module) -> Iterator[str]:
    """The names of what a test imports from others."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (each.asname or each.name.partition(".")[0] for each in names)
            case ast.ImportFrom(module=module, names=names):
                if str(module).partition(".")[0] not in {"crossclaw", "tests"}:
                    yield from (each.asname or each.name for each in names)


def _text(named: ast.expr) -> str:
    return str(named.value) if isinstance(named, ast.Constant) else ast.unparse(named)


@cache
def parsed() -> list[tuple[str, ast.Module]]:
    paths = sorted(TESTS.rglob("*.py"))
    return [(str(each.relative_to(TESTS)), ast.parse(each.read_text("utf-8"))) for each in paths]


def test_what_tests_replace_in_our_modules_is_listed() -> None:
    found = {each for where, tree in parsed() for each in replaced_in(where, tree)}

    assert found == FAULTS | CONTROLS | COUNTS | RIGS


def test_only_control_builds_write_into_our_modules() -> None:
    assert {where for where, tree in parsed() if writes_into_ours(tree)} == BUILDS


def test_no_test_uses_a_library_of_mocks() -> None:
    assert not [where for where, tree in parsed() if {"mock", "unittest"} & set(_imported(tree))]


def test_what_this_test_looks_for_is_found() -> None:
    tree = ast.parse(
        "import os\nfrom crossclaw.runs import lanes\n"
        "def test(monkeypatch, gateway):\n"
        "    monkeypatch.setattr(os, 'rename', fail)\n"
        "    monkeypatch.setattr(lanes, 'PATIENCE_S', 1)\n"
        "    monkeypatch.setattr('sys.stdout', out)\n"
        "    monkeypatch.setattr(lanes, 'find', fail)\n"
        "    monkeypatch.setattr(gateway.ledger, 'commit', fail)\n"
        "    monkeypatch.setattr(f'crossclaw.door.{name}', fail)\n"
    )

    assert list(replaced_in("a.py", tree)) == [
        "a.py: lanes.find",
        "a.py: gateway.ledger.commit",
        "a.py: f'crossclaw.door.{name}'",
    ]
