"""What a form of a client holds: fields as text, files as bytes."""

import email
import email.policy

from tests.channels.fake_http import AskedOfFake


def read_form(asked: AskedOfFake) -> tuple[dict[str, str], dict[str, bytes]]:
    kind = asked.headers.get("content-type", "")
    assert kind.startswith("multipart/form-data"), kind
    form = email.message_from_bytes(
        b"Content-Type: " + kind.encode() + b"\r\n\r\n" + asked.body, policy=email.policy.HTTP
    )
    fields: dict[str, str] = {}
    files: dict[str, bytes] = {}
    for part in form.iter_parts():
        name = str(part.get_param("name", header="content-disposition"))
        data = part.get_payload(decode=True)
        assert isinstance(data, bytes)
        if part.get_filename():
            files[name] = data
        else:
            fields[name] = data.decode()
    return fields, files
