"""trace.get and trace.export: all that followed from one root cause. Ours: OpenClaw has none."""

from typing import Any

import anyio.to_thread
from msgspec.structs import replace

from crossclaw.domain.aliases import IdText
from crossclaw.domain.errors import CrossclawError
from crossclaw.door.registry import Caller, Params, method
from crossclaw.door.resolver import Resolver
from crossclaw.gateway.methods.map import require_person, shown_rows
from crossclaw.gateway.otlp import otlp_json
from crossclaw.sessions.tracing import TraceTree, Tracing


class TraceParams(Params, frozen=True):
    id: IdText
    """A run, an exchange, or a session: then of its newest run."""


class TraceMethods:
    def __init__(self, tracing: Tracing, resolver: Resolver) -> None:
        self._tracing = tracing
        self._resolver = resolver

    @method(
        "trace.get",
        "operator.read",
        "read",
        "Ours: from the root cause down every run, model call, tool call, wait and delivery, as one tree.",
    )
    async def get(self, caller: Caller, params: TraceParams) -> TraceTree:
        require_person(self._resolver, caller)
        try:
            handle = await self._resolver.find(caller.principal, params.id)
        except CrossclawError:
            handle = None  # it is no name of a session
        key = handle.session.key if handle and handle.session else None
        root = await self._tracing.find_root(params.id, key)
        await self._resolver.resolve(caller.principal, self._resolver.shown(root.key), "read")
        tree = await self._tracing.trace(root)
        spans = shown_rows(self._resolver, tree.spans)
        return replace(tree, key=self._resolver.shown(tree.key), spans=spans)

    @method(
        "trace.export",
        "operator.read",
        "read",
        "Ours: the same as OpenTelemetry (OTLP's JSON, GenAI conventions); needs the extra otel.",
    )
    async def export(self, caller: Caller, params: TraceParams) -> dict[str, Any]:
        tree = await self.get(caller, params)
        return await anyio.to_thread.run_sync(otlp_json, tree)
