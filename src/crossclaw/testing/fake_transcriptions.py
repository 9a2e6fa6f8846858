"""FakeTranscriptions: OpenAI's `/audio/transcriptions`, as strict as its reference of 2026-11
(platform.openai.com/docs/api-reference/audio/createTranscription, looked at on 2026-11-16): a form with `file` and
`model`; the kind of a recording is told by the ending of its name; a wrong key is 401, a wrong field 400."""

import threading
from email.message import Message
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import msgspec

KINDS = ("flac", "mp3", "mp4", "mpeg", "mpga", "m4a", "ogg", "oga", "wav", "webm")
FIELDS = {"file", "model", "language", "prompt", "response_format", "temperature"}
MODELS = ("whisper-1", "gpt-4o-transcribe", "gpt-4o-mini-transcribe", "whisper-large-v3-turbo")
BYTES_MAX = 25 * 1024 * 1024


def _bytes(part: "Message[str, str]") -> bytes:
    data = part.get_payload(decode=True)
    assert isinstance(data, bytes)
    return data


class FakeTranscriptions:
    """Answers `words`, or `status` with an error."""

    def __init__(self, words: str = "buy milk", key: str = "sk-test", status: int = 200) -> None:
        self.words, self.key, self.status = words, key, status
        self.requests: list[dict[str, str]] = []
        """The fields of each form that was accepted; of its file the name."""
        self.files: list[bytes] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, str]:
        """The status, and the words or what is wrong."""
        if path != "/v1/audio/transcriptions":
            return 404, f"Invalid URL (POST {path})"
        if headers.get("authorization") != f"Bearer {self.key}":
            return 401, "Incorrect API key provided"
        kind = headers.get("content-type", "")
        if not kind.startswith("multipart/form-data; boundary="):
            return 400, f"Invalid Content-Type: {kind}"
        form = BytesParser(policy=HTTP).parsebytes(f"Content-Type: {kind}\r\n\r\n".encode() + body)
        parts = {
            str(part.get_param("name", header="content-disposition")): (part, _bytes(part))
            for part in form.walk()
            if not part.is_multipart()
        }
        if unknown := parts.keys() - FIELDS:
            return 400, f"Unrecognized request argument supplied: {sorted(unknown)[0]}"
        if not {"file", "model"} <= parts.keys():
            return 400, "you must provide a file and a model parameter"
        file, data = parts.pop("file")
        fields = {name: value.decode() for name, (_part, value) in parts.items()}
        name = file.get_filename() or ""
        if name.rpartition(".")[2] not in KINDS or not data:
            return 400, f"Invalid file format. Supported formats: {list(KINDS)}"
        if len(data) > BYTES_MAX:
            return 413, "Maximum content size limit (26214400) exceeded"
        if fields["model"] not in MODELS:
            return 404, f"The model `{fields['model']}` does not exist"
        self.requests.append({**fields, "file": name})
        self.files.append(data)
        return self.status, self.words

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                status, words = fake.answer(self.path, headers, body)
                answer: dict[str, Any] = {"text": words}
                if status != 200:
                    answer = {"error": {"message": words, "type": "invalid_request_error"}}
                data = msgspec.json.encode(answer)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler
