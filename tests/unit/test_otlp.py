"""A trace as a collector gets it.

The receiver is as strict as OTLP 1.9 (opentelemetry.io/docs/specs/otlp, read 2026-11-16): POST to /v1/traces, protobuf, ids of
16 and 8 bytes that are not zero, an end that is not before its start, parents of the same trace.
"""

import gzip
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from crossclaw.domain.errors import Invalid
from crossclaw.domain.states import State
from crossclaw.domain.traces import TraceSpan, arranged
from crossclaw.gateway.otlp import otlp_json, send_trace
from crossclaw.sessions.tracing import TraceTree
from tests.ending import beside

pytestmark = pytest.mark.spec("B10")

MAIN, LIBRARIAN = "agent:main:main", "agent:librarian:main"


def tree() -> TraceTree:
    spans = [
        TraceSpan(id="r1", kind="run", name="chat", key=MAIN, start=1000, end=9000, run_id="r1"),
        TraceSpan(
            id="r1#2", kind="model", name="claude-x", model="anthropic/claude-x", key=MAIN, start=1000,
            end=3000, parent="r1", tokens_in=70, tokens_out=9, cost_usd=0.25, run_id="r1",
        ),
        TraceSpan(
            id="r1#2:c1", kind="tool", name="sessions_send", call_id="c1", key=MAIN, start=3000, end=8000,
            parent="r1", run_id="r1",
        ),
        TraceSpan(
            id="r2", kind="run", name="send", key=LIBRARIAN, start=3100, end=7900, parent="r1#2:c1",
            standing=State("failed", "no shelf"), run_id="r2",
        ),
        TraceSpan(
            id="d", kind="delivery", name="to telegram", key="42", start=9000, end=9100, parent="r1", run_id="r1"
        ),
        TraceSpan(id="open", kind="run", name="announce", key=MAIN, start=9000, parent="r1"),
    ]  # fmt: skip
    return TraceTree(
        root="r1", key=MAIN, kind="chat", ts=9500, start=1000, asked="?", spans=arranged(spans, 9500)
    )  # fmt: skip


class Collector:
    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                fine = (
                    self.path == "/v1/traces"
                    and self.headers["content-type"] == "application/x-protobuf"
                )
                if fine:
                    collector.requests.append(ExportTraceServiceRequest.FromString(body))
                self.send_response(200 if fine else 400)
                self.send_header("content-type", "application/x-protobuf")
                self.end_headers()
                self.wfile.write(ExportTraceServiceResponse().SerializeToString())

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def collector() -> Generator[Collector]:
    made = Collector()
    with beside(lambda: made.server.serve_forever(poll_interval=0.01)):
        yield made
        made.server.shutdown()
    made.server.server_close()


def test_a_collector_gets_every_ended_span_with_the_names_of_the_genai_conventions(
    collector: Collector,
) -> None:
    assert send_trace(tree(), f"{collector.url}/v1/traces", {}) == 5

    (request,) = collector.requests
    (resource,) = request.resource_spans
    assert [(a.key, a.value.string_value) for a in resource.resource.attributes] == [
        ("service.name", "crossclaw")
    ]
    spans = {span.name: span for scope in resource.scope_spans for span in scope.spans}
    ids = {span.span_id for span in spans.values()}
    assert len({span.trace_id for span in spans.values()}) == 1
    for span in spans.values():
        assert (len(span.trace_id), len(span.span_id)) == (16, 8)
        assert any(span.trace_id)
        assert any(span.span_id)
        assert span.end_time_unix_nano >= span.start_time_unix_nano > 0
        assert not span.parent_span_id or span.parent_span_id in ids
    assert set(spans) == {
        "invoke_agent main", "chat claude-x", "execute_tool sessions_send", "invoke_agent librarian",
        "send telegram",
    }  # fmt: skip
    model = {a.key: a.value for a in spans["chat claude-x"].attributes}
    assert model["gen_ai.operation.name"].string_value == "chat"
    assert model["gen_ai.provider.name"].string_value == "anthropic"
    assert model["gen_ai.request.model"].string_value == "claude-x"
    assert model["gen_ai.usage.input_tokens"].int_value == 70
    assert model["gen_ai.usage.output_tokens"].int_value == 9
    failed = spans["invoke_agent librarian"]
    assert (failed.status.code, failed.status.message) == (2, "no shelf")
    assert failed.parent_span_id == spans["execute_tool sessions_send"].span_id


def test_a_collector_that_refuses_is_named(collector: Collector) -> None:
    with pytest.raises(Invalid, match="did not take the trace"):
        send_trace(tree(), f"{collector.url}/elsewhere", {})


def test_the_file_is_otlps_own_json_with_ids_in_hex() -> None:
    (resource,) = otlp_json(tree())["resourceSpans"]
    spans = resource["scopeSpans"][0]["spans"]
    assert all(len(bytes.fromhex(span["spanId"])) == 8 for span in spans)
    assert [span["kind"] for span in spans] == [1, 3, 1, 1, 4]
    assert spans[3]["status"] == {"code": 2, "message": "no shelf"}
    assert spans[3]["parentSpanId"] == spans[2]["spanId"]
