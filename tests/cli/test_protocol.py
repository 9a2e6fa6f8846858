"""The protocol as JSON Schema: it is valid, complete, and says what the gateway refuses."""

import json

import pytest
from jsonschema import Draft202012Validator

from crossclaw.cli.main import main
from crossclaw.gateway.events import EVENT_NAMES


@pytest.mark.spec("G2")
def test_the_schema_of_every_method_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["protocol", "schema"]) == 0
    schema = json.loads(capsys.readouterr().out)

    Draft202012Validator.check_schema({"definitions": schema["definitions"]})
    assert {"connect", "chat.send", "sessions.list", "agent"} <= set(schema["methods"])
    assert not any(name.startswith("tool.") for name in schema["methods"])
    assert schema["events"] == list(EVENT_NAMES)
    for name, method in schema["methods"].items():
        whole = {**method["params"], "definitions": schema["definitions"]}
        problems = list(Draft202012Validator(whole).iter_errors({"no method has this": 1}))
        assert problems, name
    send = {**schema["methods"]["chat.send"]["params"], "definitions": schema["definitions"]}
    good = {"sessionKey": "main", "message": "hi", "idempotencyKey": "k"}
    assert not list(Draft202012Validator(send).iter_errors(good))
    assert list(Draft202012Validator(send).iter_errors({**good, "idempotencyKey": ""}))
