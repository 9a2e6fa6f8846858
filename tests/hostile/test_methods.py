"""Every method with parameters that it may take, nearly may take, and may not take."""

from collections.abc import Iterator
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossclaw.door.registry import Method
from tests.hostile.making import Maker, anything
from tests.hostile.watched import (
    HIDDEN,
    Visitor,
    Watched,
    beside_a_gateway,
    check_answer,
    check_event,
    every_method,
    hostile,
    watched_gateway,
)

KEYS = [
    "main",
    "agent:main:main",
    "agent:helper:main",
    "agent:main:chat",
    HIDDEN,
    "cron:job",
    "hook:x",
]
NOW = "the hash that config.get tells"
POOL: dict[str, list[Any]] = {
    "key": KEYS,
    "keys": KEYS,
    "sessionKey": KEYS,
    "agentId": ["main", "helper", "nobody", "MAIN"],
    "message": ["hello", "say: Hi.", "fail: no luck", "/help", "/status"],
    "model": ["rehearsal/rehearsal", "nobody/nothing", "rehearsal", None],
    "raw": ["{}", "{gateway: {port: 1}}", "{", "[]", "null", "{a: 'b', a: 'c'}", "{gateway: {port: 'x'}}"],
    "runId": ["r1", "r2", "nope"],
    "expr": ["0 0 31 2 *", "@daily", "*/0 * * * *", "0 0 * * 8", "99 * * * *", "0 0 29 2 *"],
    "tz": ["UTC", "Europe/Vienna", "Mars/Olympus", "../../etc/passwd", "", "utc", "Etc/GMT+14"],
    "query": ["hello", "hello OR", '"', "a AND (", "NEAR(a b)", "*", "-x", "x:y"],
    "idempotencyKey": [f"k{number}" for number in range(500)],
    "mimeType": ["image/png", "image/gif", "text/plain"],
    "content": ["iVBORw0KGgo=", "AAAA", "!"],
    "baseHash": [NOW],
    "command": ["do"],
    "cleanup": ["keep", "delete"],
    "task": ["say: Done."],
}  # fmt: skip
ONLY: dict[str, list[Any]] = {
    # Jobs that are due at once change the ledger at any time.
    "everyMs": [3_600_000, 8_640_000_000_000_000],
    "at": ["9999-12-31T23:59:59Z", "2100-01-01", "1", "9" * 5000, "253402300800000", "x", "9999-12-31T23:59:60-14:00"],
}  # fmt: skip
WAITING = ("agent.wait", "node.invoke", "sessions.send", "tool.sessions_send", "tool.sessions_wait")


pytestmark = beside_a_gateway


@pytest.fixture(scope="module")
def methods(tmp_path_factory: pytest.TempPathFactory) -> list[Method[Any]]:
    found = anyio.run(every_method, tmp_path_factory.mktemp("registry"))
    return [each for each in found if each.name != "gateway.stop"]  # which does what it says


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with watched_gateway(tmp_path_factory.mktemp("gateway")) as watched:
        yield watched


@pytest.fixture
def visitors(gateway: Watched) -> Iterator[dict[str, Visitor]]:
    made = {
        "operator": Visitor(gateway.served_gateway),
        "old": Visitor(gateway.served_gateway, protocol=3),
        "reader": Visitor(gateway.served_gateway, scopes=["operator.read"]),
        "node": Visitor(gateway.served_gateway, role="node", scopes=[], commands=["do"]),
    }
    yield made
    for each in made.values():
        each.close()


@pytest.mark.spec("G1", "G2", "B3")
def test_whatever_is_asked_is_answered_and_a_refusal_changes_nothing(
    gateway: Watched, visitors: dict[str, Visitor], methods: list[Method[Any]]
) -> None:
    known = {method.name: method for method in methods}
    maker = Maker({**POOL, **living(visitors)}, ONLY)
    gateway.wait_for_rest()
    before = gateway.held()

    @hostile(80)
    @given(st.data())
    def asking(data: st.DataObject) -> None:
        method = known[data.draw(st.sampled_from(sorted(known)))]
        kind = maker.nearly(method.params) | maker.valid(method.params)
        params = data.draw(kind | anything)
        who = data.draw(st.sampled_from(sorted(visitors)))
        visitor = visitors["node"] if method.scope == "node" else visitors[who]
        asked(gateway, visitor, method, params)

    asking()
    for each in visitors.values():
        each.close()
    gateway.wait_for_rest()
    gateway.check_held(before)


@pytest.mark.spec("G1", "B1")
def test_whatever_is_asked_at_once_each_has_its_own_answer(
    gateway: Watched, visitors: dict[str, Visitor], methods: list[Method[Any]]
) -> None:
    known = {method.name: method for method in methods if method.scope not in ("node", "hook")}
    maker = Maker({**POOL, **living(visitors)}, ONLY)
    visitor = visitors["operator"]

    @hostile(12, 3_000)
    @given(st.data())
    def asking(data: st.DataObject) -> None:
        chosen = data.draw(st.lists(st.sampled_from(sorted(known)), min_size=2, max_size=8))
        asked = []
        for name in chosen:
            params = data.draw(maker.nearly(known[name].params))
            if name in WAITING and isinstance(params, dict):
                params = impatient(known[name], params)
            asked.append((name, params))
        for name, answer in visitor.ask_at_once(asked):
            check_answer(answer, known.get(name))
        for event in visitor.events:
            check_event(event)
        visitor.events.clear()
        assert gateway.complaints() == [], asked

    asking()
    gateway.wait_for_rest()
    assert gateway.serves()


def living(visitors: dict[str, Visitor]) -> dict[str, list[Any]]:
    """Names of what is there: jobs, a device, a node."""
    person = visitors["operator"]
    assert visitors["node"].ask("node.event", {"event": "x"})
    nodes = [node["nodeId"] for node in person.ask("node.list", {})[0]["payload"]["nodes"]]
    jobs = [person.ask("cron.add", job)[0]["payload"]["id"] for job in JOBS]
    return {"jobId": jobs, "id": jobs, "nodeId": nodes}


JOBS: list[dict[str, Any]] = [
    {
        "name": "later",
        "schedule": {"kind": "every", "everyMs": 3_600_000},
        "payload": {"kind": "systemEvent", "text": "look"},
    },
    {
        "name": "yearly",
        "schedule": {"kind": "cron", "expr": "0 0 29 2 *", "tz": "Europe/Vienna"},
        "payload": {"kind": "agentTurn", "message": "say: Hi."},
    },
]


def asked(gateway: Watched, visitor: Visitor, method: Method[Any], params: Any) -> None:
    if method.name in WAITING and isinstance(params, dict):
        params = impatient(method, params)
    if isinstance(params, dict) and params.get("baseHash") == NOW:
        told = visitor.ask("config.get", {})[0]
        params = {**params, "baseHash": told.get("payload", {}).get("hash", NOW)}
    gateway.wait_for_rest()
    before = gateway.rows()
    answers = visitor.ask(method.name, params, 2 if method.name == "agent" else 1)
    for answer in answers:
        check_answer(answer, method if answer is answers[0] else None)
    for event in visitor.events:
        check_event(event)
    visitor.events.clear()
    assert gateway.complaints() == [], (method.name, params)
    if len(answers) == 1 and not answers[0]["ok"] and gateway.rows() != before:
        gateway.check_unchanged(lambda: visitor.ask(method.name, params))
    assert gateway.serves()


def impatient(method: Method[Any], params: dict[str, Any]) -> dict[str, Any]:
    """A wait that is asked for is given, and half a minute where nobody says how long: not here."""
    fields = {field.encode_name for field in msgspec.structs.fields(method.params)}
    waits = {"timeoutMs": 1, "timeoutSeconds": 0}
    return {**params, **{name: waits[name] for name in waits if name in fields}}
