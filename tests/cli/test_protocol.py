"""The protocol as JSON Schema: it is valid, complete, and says what the gateway refuses."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from crossclaw.cli.main import main
from crossclaw.gateway.publisher import EVENT_NAMES


@pytest.mark.spec("G2")
def test_the_schema_of_every_method_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["protocol", "schema"]) == 0
    schema = json.loads(capsys.readouterr().out)

    Draft202012Validator.check_schema({"definitions": schema["definitions"]})
    assert {"connect", "chat.send", "sessions.list", "agent"} <= set(schema["methods"])
    assert not any(name.startswith("tool.") for name in schema["methods"])
    assert list(schema["events"]) == list(EVENT_NAMES)
    for name, method in schema["methods"].items():
        whole = {**method["params"], "definitions": schema["definitions"]}
        problems = list(Draft202012Validator(whole).iter_errors({"no method has this": 1}))
        assert problems, name
    send = {**schema["methods"]["chat.send"]["params"], "definitions": schema["definitions"]}
    good = {"sessionKey": "main", "message": "hi", "idempotencyKey": "k"}
    assert not list(Draft202012Validator(send).iter_errors(good))
    assert list(Draft202012Validator(send).iter_errors({**good, "idempotencyKey": ""}))


def test_the_same_as_asyncapi_has_every_method_and_event_and_no_loose_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["protocol", "schema", "--asyncapi"]) == 0
    document = json.loads(capsys.readouterr().out)

    operations = document["operations"]
    assert (document["asyncapi"], operations["chat.send"]["action"]) == ("3.0.0", "receive")
    assert {f"{name}.event" for name in EVENT_NAMES} <= set(operations)
    for reference in references(document):
        found = document
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]
    for name, message in document["components"]["messages"].items():
        whole = {**message["payload"], "components": document["components"]}
        Draft202012Validator.check_schema(whole)
        assert list(Draft202012Validator(whole).iter_errors({"type": "nothing"})), name
    request = document["components"]["messages"]["chat.send.request"]["payload"]
    whole = {**request, "components": document["components"]}
    params = {"sessionKey": "main", "message": "hi", "idempotencyKey": "k"}
    frame = {"type": "req", "id": "1", "method": "chat.send", "params": params}
    assert not list(Draft202012Validator(whole).iter_errors(frame))
    assert list(Draft202012Validator(whole).iter_errors({**frame, "params": {}}))


def references(value: Any) -> list[str]:
    if isinstance(value, list):
        return [found for part in value for found in references(part)]
    if not isinstance(value, dict):
        return []
    mine = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
    return mine + [found for part in value.values() for found in references(part)]
