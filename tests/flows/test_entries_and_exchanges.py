"""A transcript that says which of its entries belong to which send or spawn, for whoever folds them away."""

from pathlib import Path

import pytest

from crossclaw.testing import open_gateway
from tests.flows.spawning import config_of, family, reported
from tests.flows.talking import call, say, two_agents
from tests.flows.test_exchanges import LIBRARIAN, MAIN, settled, talkative


@pytest.mark.spec("B7")
async def test_entries_name_the_send_that_they_belong_to_and_how_far_it_is(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, talkative(skip_at=1), config=two_agents()) as gateway:
        await say(gateway, "main", "ask", "r1")
        await settled(gateway)
        asked = await call(gateway, "sessions.entries", key=LIBRARIAN.text, exchanges=True)
        asking = await call(gateway, "sessions.entries", key=MAIN.text, exchanges=True)
        plain = await call(gateway, "sessions.entries", key=MAIN.text)
        (exchange,) = asked["exchanges"]
        named = await call(gateway, "exchanges.list", ids=[exchange["id"], "nobody"])

    kinds = [(entry.get("runKind"), entry.get("exchange")) for entry in asked["entries"]]
    expected = [(kind, exchange["id"]) for kind in ("send", "send", "announce", "announce")]
    assert kinds == [*expected, (None, None)]  # that it has no chat to announce it in
    own = [(entry["runKind"], entry.get("exchange")) for entry in asking["entries"]]
    assert own == [("chat", None)] * 4 + [("round", exchange["id"])] * 2
    facts = [exchange[name] for name in ("kind", "requester", "target", "turn", "state")]
    assert facts == ["send", MAIN.text, LIBRARIAN.text, 1, "over"]
    assert named["exchanges"] == [exchange] == asking["exchanges"]
    assert "exchanges" not in plain
    assert "runKind" not in plain["entries"][0]


@pytest.mark.spec("B7")
async def test_a_child_and_its_report_name_the_child(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, family(), config=config_of()) as gateway:
        await say(gateway, "main", "go", "r1")
        child = (await reported(gateway)).child_key
        of_child = await call(gateway, "sessions.entries", key=child, exchanges=True)
        of_parent = await call(gateway, "sessions.entries", key=MAIN.text, exchanges=True)

    assert {entry["exchange"] for entry in of_child["entries"]} == {child}
    assert [entry["runKind"] for entry in of_child["entries"]][-2:] == ["announce"] * 2
    reports = [entry for entry in of_parent["entries"] if entry.get("exchange") == child]
    assert "Status:" in str(reports[0]["message"])
    assert [each["kind"] for each in of_parent["exchanges"]] == ["spawn"]


async def test_a_child_is_of_one_kind_in_the_table_and_found_by_it(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, family(), config=config_of()) as gateway:
        await say(gateway, "main", "go", "r1")
        child = (await reported(gateway)).child_key
        whole = await call(gateway, "sessions.table")
        found = await call(gateway, "sessions.table", kinds=["child"])
        both = await call(gateway, "sessions.table", kinds=["child", "main"])
        on_the_wire = await call(gateway, "sessions.list")

    kinds = {row["key"]: row["kind"] for row in whole["rows"]}
    assert (kinds[child], kinds[MAIN.text]) == ("child", "main")
    assert [row["key"] for row in found["rows"]] == [child]
    assert {row["key"] for row in both["rows"]} == {child, MAIN.text}
    listed = {row["key"]: row["kind"] for row in on_the_wire["sessions"]}
    assert listed[child] == "direct"  # OpenClaw's word
