"""A trace as OpenTelemetry: OTLP, with the names of the GenAI conventions (v1.41, looked up 2026-11-16). The extra
`otel` brings the encoder; it is imported when somebody asks."""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from crossclaw.disk.extras import how_to_install_there
from crossclaw.domain.errors import Invalid
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.traces import TraceSpan
from crossclaw.sessions.tracing import TraceTree

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

NEEDS = f"this needs an extra: {how_to_install_there('otel')}"
SEND_S = 30.0


def trace_id(root: str) -> int:
    """The trace's id: the same for the same root cause, whoever exports it and how often."""
    return int.from_bytes(sha256(f"trace of {root}".encode()).digest()[:16]) or 1


def span_id(name: str) -> int:
    return int.from_bytes(sha256(f"span {name}".encode()).digest()[:8]) or 1


def readable_spans(tree: TraceTree) -> "list[ReadableSpan]":
    try:
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415  an extra
        from opentelemetry.sdk.trace import ReadableSpan  # noqa: PLC0415
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415
        from opentelemetry.trace import (  # noqa: PLC0415
            SpanContext,
            SpanKind,
            Status,
            StatusCode,
            TraceFlags,
        )
    except ModuleNotFoundError:
        raise Invalid(NEEDS) from None
    resource = Resource({"service.name": "crossclaw"})
    scope = InstrumentationScope("crossclaw.trace")
    kinds = {"model": SpanKind.CLIENT, "delivery": SpanKind.PRODUCER}

    def context(name: str) -> Any:
        flags = TraceFlags(TraceFlags.SAMPLED)
        return SpanContext(trace_id(tree.root), span_id(name), is_remote=False, trace_flags=flags)

    def made(span: TraceSpan) -> ReadableSpan:
        bad = span.standing is not None and span.standing.is_bad
        status = Status(StatusCode.ERROR, span.standing.why if span.standing else None)
        return ReadableSpan(
            name=span_name(span),
            context=context(span.id),
            parent=context(span.parent) if span.parent else None,
            resource=resource,
            attributes=dict(attributes(span)),
            kind=kinds.get(span.kind, SpanKind.INTERNAL),
            status=status if bad else Status(StatusCode.UNSET),
            start_time=span.start * 1_000_000,
            end_time=(span.end or 0) * 1_000_000,
            instrumentation_scope=scope,
        )

    return [made(span) for span in tree.spans if span.end is not None]


def span_name(span: TraceSpan) -> str:
    if span.kind == "run":
        return f"invoke_agent {_agent(span.key)}"
    verbs = {"model": "chat", "tool": "execute_tool", "delivery": "send"}
    verb = verbs.get(span.kind, span.kind)
    return f"{verb} {span.name.removeprefix('to ')}" if span.kind in verbs else span.name


def attributes(span: TraceSpan) -> Iterator[tuple[str, str | int | float | bool]]:
    operations = {"run": "invoke_agent", "model": "chat", "tool": "execute_tool"}
    if span.kind in operations:
        yield "gen_ai.operation.name", operations[span.kind]
    if span.kind != "delivery":
        yield "gen_ai.conversation.id", span.key
        yield "gen_ai.agent.id", _agent(span.key)
    if span.kind == "model":
        provider, _, model = (span.model or span.name).rpartition("/")
        yield "gen_ai.provider.name", provider or "unknown"
        yield "gen_ai.request.model", model
        yield "gen_ai.usage.input_tokens", span.tokens_in
        yield "gen_ai.usage.output_tokens", span.tokens_out
        yield "crossclaw.cost_usd", span.cost_usd
    if span.kind == "tool":
        yield "gen_ai.tool.name", span.name
        yield "gen_ai.tool.call.id", span.call_id or ""
    if span.kind == "delivery":
        yield "messaging.destination.name", span.key
        yield "messaging.system", span.name.removeprefix("to ")
    if span.run_id:
        yield "crossclaw.run.id", span.run_id
    if span.kind == "run":
        yield "crossclaw.run.kind", span.name
    if span.standing is not None:
        yield "error.type" if span.standing.is_bad else "crossclaw.standing", span.standing.name
    yield "crossclaw.critical_path", span.critical


def _agent(key: str) -> str:
    try:
        return SessionKey.parse(key).agent_id
    except Invalid:
        return key


def otlp_json(tree: TraceTree) -> dict[str, Any]:
    """The trace as OTLP's own JSON, whose ids are hex: a file that a collector accepts."""
    spans = readable_spans(tree)
    from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]  # noqa: PLC0415
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans  # noqa: PLC0415

    request: dict[str, Any] = MessageToDict(encode_spans(spans))
    for group in request.get("resourceSpans", []):
        for scope in group.get("scopeSpans", []):
            for span in scope["spans"]:
                _in_hex(span)
    return request


def _in_hex(span: dict[str, Any]) -> None:
    import base64  # noqa: PLC0415

    for name in ("traceId", "spanId", "parentSpanId"):
        if name in span:
            span[name] = base64.b64decode(span[name]).hex()
    span["kind"] = _KINDS.get(span.get("kind", ""), 1)
    if "code" in span.get("status", {}):
        span["status"]["code"] = {"STATUS_CODE_OK": 1, "STATUS_CODE_ERROR": 2}.get(
            span["status"]["code"], 0
        )


_KINDS = {
    "SPAN_KIND_INTERNAL": 1,
    "SPAN_KIND_SERVER": 2,
    "SPAN_KIND_CLIENT": 3,
    "SPAN_KIND_PRODUCER": 4,
    "SPAN_KIND_CONSUMER": 5,
}


def send_trace(tree: TraceTree, endpoint: str, headers: Mapping[str, str]) -> int:
    """Sends a trace to a collector over HTTP. Blocks: call it in a thread, or in a command. Returns the
    number of spans."""
    spans = readable_spans(tree)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import SpanExportResult  # noqa: PLC0415

    exporter = OTLPSpanExporter(endpoint=endpoint, headers=dict(headers), timeout=SEND_S)
    try:
        if exporter.export(spans) is not SpanExportResult.SUCCESS:
            raise Invalid(f"{endpoint} did not take the trace")
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]
    return len(spans)
