"""sessions.*: list, read, change, reset and delete sessions."""

from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args

import msgspec
from msgspec import UNSET, UnsetType

from crossclaw.config.doors import QueueMode
from crossclaw.domain.addresses import Address
from crossclaw.domain.agents import normalize_agent_id
from crossclaw.domain.aliases import Filled
from crossclaw.domain.errors import Invalid, NotFound, StoreDamaged
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.models import LEVELS
from crossclaw.domain.sessions import LABEL_CHARS_MAX, Session
from crossclaw.door.registry import Caller, Params, Result, method
from crossclaw.door.resolver import Resolver
from crossclaw.gateway.publisher import shown_key
from crossclaw.ledger.operations import LANE_RUNS_MAX
from crossclaw.policy.answering import is_gone
from crossclaw.runs.context import ServiceContext
from crossclaw.sessions.budgets import BudgetRow, Budgets
from crossclaw.sessions.changing import Changing
from crossclaw.sessions.choosing import ModelChoices
from crossclaw.sessions.fitting import is_said, previewed
from crossclaw.sessions.queueing import DEBOUNCE_MS_MAX, DROPS
from crossclaw.sessions.rows import UNREADABLE, RowFacts, row_facts

LIST_MAX = 1_000  # rows of one answer; a page asks for what it shows
PREVIEW_KEYS_MAX = 64

SEARCH_CHARS_MAX = 1_000  # longer than any name; SQLite itself refuses patterns of 50,000
Label = Annotated[
    str,
    msgspec.Meta(min_length=1, max_length=LABEL_CHARS_MAX, pattern=r"^[^\x00-\x1f\x7f]*$"),
]
AtLeastOne = Annotated[int, msgspec.Meta(ge=1, le=10_000_000)]
DisplayName = Annotated[str, msgspec.Meta(max_length=200)]


PreviewRows = list[dict[str, Any]]


class SessionListParams(Params, frozen=True):
    limit: AtLeastOne | None = None
    active_minutes: AtLeastOne | None = None
    include_global: bool = False
    include_unknown: bool = False
    include_derived_titles: bool = False
    include_last_message: bool = False
    label: Label | None = None
    spawned_by: str | None = None
    agent_id: str | None = None
    search: Annotated[str, msgspec.Meta(max_length=SEARCH_CHARS_MAX)] | None = None
    offset: Annotated[int, msgspec.Meta(ge=0, le=10_000_000)] = 0


class SessionRow(RowFacts, frozen=True, kw_only=True):
    """A session on the wire: keys in full, kinds direct or group."""

    chat_type: str
    input_tokens: int
    output_tokens: int
    model_provider: str
    queue_mode: str | None = None
    queue_debounce_ms: int | None = None
    queue_cap: int | None = None
    queue_drop: str | None = None
    group_activation: str | None = None
    compaction_count: int = 0
    delivery_context: Address | None = None
    last_account_id: str | None = None
    spawned_by: str | None = None


class SessionListResult(Result, frozen=True):
    ts: int
    path: str
    count: int
    defaults: dict[str, Any]
    sessions: list[SessionRow]


class ResolveParams(Params, frozen=True):
    key: str | None = None
    session_id: str | None = None
    label: Label | None = None
    agent_id: str | None = None
    spawned_by: str | None = None
    include_global: bool = False
    include_unknown: bool = False

    @property
    def only_name(self) -> str:
        given = [name for name in (self.key, self.session_id, self.label) if name]
        if not given:
            raise Invalid("Either key, sessionId, or label is required")
        if len(given) > 1:
            raise Invalid("Provide either key, sessionId, or label (not multiple)")
        return given[0]


class ResolveResult(Result, frozen=True):
    ok: bool
    key: str
    agent_id: str


class PreviewParams(Params, frozen=True):
    keys: Annotated[list[str], msgspec.Meta(min_length=1)]
    limit: Annotated[int, msgspec.Meta(ge=1, le=50)] = 12
    max_chars: Annotated[int, msgspec.Meta(ge=20, le=2000)] = 240


class PreviewResult(Result, frozen=True):
    ts: int
    previews: list[dict[str, Any]]


class KeyParams(Params, frozen=True):
    key: Filled


class DescribeResult(msgspec.Struct, frozen=True):
    session: SessionRow | None


DebounceMs = Annotated[int, msgspec.Meta(ge=0, le=DEBOUNCE_MS_MAX)]
QueueCap = Annotated[int, msgspec.Meta(ge=1, le=LANE_RUNS_MAX)]


class SessionPatchParams(Params, frozen=True):
    key: Filled
    label: Label | UnsetType | None = UNSET
    thinking_level: str | UnsetType | None = UNSET
    verbose_level: str | UnsetType | None = UNSET
    model: DisplayName | UnsetType | None = UNSET
    send_policy: str | UnsetType | None = UNSET
    queue_mode: str | UnsetType | None = UNSET
    queue_debounce_ms: DebounceMs | UnsetType | None = UNSET
    queue_cap: QueueCap | UnsetType | None = UNSET
    queue_drop: str | UnsetType | None = UNSET
    group_activation: str | UnsetType | None = UNSET
    display_name: DisplayName | UnsetType | None = UNSET


class PatchResult(Result, frozen=True):
    ok: bool
    path: str
    key: str
    entry: SessionRow
    resolved: dict[str, Any]


class ResetResult(Result, frozen=True):
    ok: bool
    key: str
    entry: SessionRow


class DeleteParams(Params, frozen=True):
    key: Filled
    delete_transcript: bool = True


class DeleteResult(Result, frozen=True):
    ok: bool
    key: str
    deleted: bool
    archived: list[str]


class CreateParams(Params, frozen=True):
    """`parentSessionKey`, `succeedsParent` and `emitCommandHooks` are OpenClaw's and change nothing here."""

    key: str | None = None
    agent_id: str | None = None
    label: Label | None = None
    model: DisplayName | None = None
    parent_session_key: str | None = None
    succeeds_parent: bool | None = None
    emit_command_hooks: bool | None = None


class CreateResult(Result, frozen=True):
    ok: bool
    key: str
    session_id: str
    entry: SessionRow


_ALLOWED = {
    "thinkingLevel": LEVELS,
    "verboseLevel": ("on", "off", "full"),
    "sendPolicy": ("allow", "deny"),
    "queueMode": get_args(QueueMode),
    "queueDrop": DROPS,
    "groupActivation": ("mention", "always"),
}


class _UsedModel(NamedTuple):
    """The model that answers in a session, and its window in tokens."""

    provider: str
    model: str
    window: int


@lru_cache(LIST_MAX)
def _row(session: Session, used: _UsedModel, budget: BudgetRow | None, gone: bool) -> SessionRow:
    """The row of a session. Kept as long as nothing that it says changes: of a list that is asked for again and
    again, nearly all rows are as they were."""
    key, address = session.key, session.last_address
    return SessionRow(
        key=shown_key(key),
        kind="group" if key.kind == "group" else "direct",
        model=used.model,
        model_provider=used.provider,
        chat_type=key.chat_type,
        input_tokens=session.input_tokens,
        output_tokens=session.output_tokens,
        queue_mode=session.queue_mode,
        queue_debounce_ms=session.queue_debounce_ms,
        queue_cap=session.queue_cap,
        queue_drop=session.queue_drop,
        group_activation=session.group_activation,
        compaction_count=session.compactions,
        delivery_context=address,
        last_account_id=address.account_id if address else None,
        spawned_by=session.spawned_by and SessionKey.stored(session.spawned_by).shown,
        **row_facts(session, window=used.window, budget=budget, agent_gone=gone),
    )


class SessionMethods:
    def __init__(
        self,
        context: ServiceContext,
        resolver: Resolver,
        changing: Changing,
        store: Path,
        budgets: Budgets,
        models: ModelChoices,
    ) -> None:
        self._config = context.config
        self._ledger = context.ledger
        self._resolver = resolver
        self._changing = changing
        self._clock = context.clock
        self._ids = context.ids
        self._store = store
        self._budgets = budgets
        self._models = models

    @method("sessions.list", "operator.read", "read", "Sessions, newest first.")
    async def list(self, caller: Caller, params: SessionListParams) -> SessionListResult:
        now = self._clock.now_ms()
        found = await self._found(caller, params, now)
        budgets = await self._budgets.of([session.key for session in found])
        model_of = cache(self._model)  # nearly all rows have the same
        rows = [
            self.row(each, model_of(each.key.agent_id, each.model), budgets.get(each.key))
            for each in found
        ]
        return SessionListResult(
            ts=now,
            path=str(self._store),
            count=len(rows),
            defaults=self._defaults(),
            sessions=rows,
        )

    async def _found(
        self, caller: Caller, params: SessionListParams, now: int
    ) -> Sequence[Session]:
        after = None if params.active_minutes is None else now - params.active_minutes * 60_000
        return await self._ledger.list_sessions(
            limit=min(params.limit or LIST_MAX, LIST_MAX),
            agent_id=normalize_agent_id(params.agent_id) if params.agent_id else None,
            sight=self._resolver.sight(caller.principal),
            updated_after=after,
            label=params.label,
            spawned_by=params.spawned_by,
            search=params.search,
            offset=params.offset,
        )

    def row(
        self, session: Session, used: _UsedModel | None = None, budget: BudgetRow | None = None
    ) -> SessionRow:
        used = used or self._model(session.key.agent_id, session.model)
        return _row(session, used, budget, is_gone(self._config.agents, session.key))

    def _model(self, agent_id: str, chosen: str | None) -> _UsedModel:
        reference = self._models.in_use(agent_id, chosen)
        provider, _, model = reference.partition("/")
        return _UsedModel(provider, model, self._config.window_for(agent_id, reference))

    def _defaults(self) -> dict[str, Any]:
        used = self._model(self._config.agents.default_id, None)
        return {
            "modelProvider": used.provider,
            "model": used.model,
            "contextTokens": used.window,
        }

    @method(
        "sessions.resolve",
        "operator.read",
        "read",
        "The key behind a key, a session id or a label.",
    )
    async def resolve(self, caller: Caller, params: ResolveParams) -> ResolveResult:
        name = params.only_name
        try:
            if params.label:
                handle = await self._resolver.resolve_label(
                    caller.principal, name, params.agent_id, "see"
                )
            else:
                handle = await self._resolver.resolve(
                    caller.principal, name, "see", params.agent_id
                )
        except NotFound:
            what = f" with label: {name}" if params.label else f": {name}"
            raise NotFound(f"No session found{what}") from None
        return ResolveResult(ok=True, key=shown_key(handle.key), agent_id=handle.key.agent_id)

    @method("sessions.preview", "operator.read", "read", "The last words of several sessions.")
    async def preview(self, caller: Caller, params: PreviewParams) -> PreviewResult:
        previews: PreviewRows = []
        for key in params.keys[:PREVIEW_KEYS_MAX]:
            try:
                status, items = await self._previewed(caller, key, params)
            except StoreDamaged:  # one session's row; the others are asked for too
                status, items = (
                    "error",
                    [{"role": "system", "text": UNREADABLE[: params.max_chars]}],
                )
            previews.append({"key": key, "status": status, "items": items})
        return PreviewResult(ts=self._clock.now_ms(), previews=previews)

    async def _previewed(
        self, caller: Caller, key: str, params: PreviewParams
    ) -> tuple[str, PreviewRows]:
        handle = await self._resolver.find(caller.principal, key)
        if handle is None or handle.session is None:
            return "missing", []
        entries = await self._ledger.list_entries(
            handle.session.session_id, limit=params.limit, notes=False
        )
        items = [previewed(entry, params.max_chars) for entry in entries if is_said(entry)]
        return ("ok" if items else "empty"), items

    @method("sessions.describe", "operator.read", "read", "One session's row.")
    async def describe(self, caller: Caller, params: KeyParams) -> DescribeResult:
        handle = await self._resolver.find(caller.principal, params.key)
        session = handle.session if handle else None
        if session is None:
            return DescribeResult(None)
        budgets = await self._budgets.of([session.key])
        return DescribeResult(self.row(session, budget=budgets.get(session.key)))

    @method(
        "sessions.patch",
        "operator.admin",
        "change",
        "Change a session's settings; null clears. Makes the session if need be.",
    )
    async def patch(self, caller: Caller, params: SessionPatchParams) -> PatchResult:
        handle = await self._resolver.resolve(caller.principal, params.key, "create")
        session = await self._changing.patch(handle.key, self._checked(_changes(params)))
        used = self._model(session.key.agent_id, session.model)
        return PatchResult(
            ok=True,
            path=str(self._store),
            key=shown_key(handle.key),
            entry=self.row(session, used),
            resolved={"modelProvider": used.provider, "model": used.model},
        )

    def _checked(self, changes: dict[str, Any]) -> dict[str, Any]:
        name = changes.get("model")
        return {**changes, "model": self._models.check(name)} if name else changes

    @method(
        "sessions.create",
        "operator.write",
        "change",
        "Make a session, by a name of yours or one of ours.",
    )
    async def create(self, caller: Caller, params: CreateParams) -> CreateResult:
        """Creates a session under the client's name for it, or under one of ours."""
        agent = self._config.agents.get(params.agent_id).id if params.agent_id else None
        name = params.key or f"chat-{self._ids.short()}"
        handle = await self._resolver.resolve(caller.principal, name, "create", agent)
        given = {"label": params.label, "model": params.model}
        changes = {column: value for column, value in given.items() if value is not None}
        session = await self._changing.patch(handle.key, self._checked(changes))
        key = shown_key(session.key)
        return CreateResult(
            ok=True, key=key, session_id=session.session_id, entry=self.row(session)
        )

    @method(
        "sessions.reset",
        "operator.admin",
        "change",
        "Begin anew under the same key; the old transcript stays.",
    )
    async def reset(self, caller: Caller, params: KeyParams) -> ResetResult:
        principal, named = caller.principal, params.key
        handle = await self._resolver.resolve_whole_or_damaged(principal, named, "create")
        damaged = handle.session is not None and handle.session.unreadable
        session = await self._changing.reset(handle.key, damaged=damaged)
        return ResetResult(ok=True, key=shown_key(handle.key), entry=self.row(session))

    @method(
        "sessions.delete",
        "operator.admin",
        "change",
        "Stop and forget a session; its JSONL copy is set aside.",
    )
    async def delete(self, caller: Caller, params: DeleteParams) -> DeleteResult:
        principal, named = caller.principal, params.key
        try:
            handle = await self._resolver.resolve_whole_or_damaged(principal, named, "see")
        except NotFound:
            handle = None
        if handle is None or handle.session is None:
            return DeleteResult(ok=True, key=params.key, deleted=False, archived=[])
        kept = await self._changing.delete(handle.session)
        return DeleteResult(ok=True, key=shown_key(handle.key), deleted=True, archived=kept)


_COLUMNS = {
    "label": "label",
    "thinkingLevel": "thinking",
    "verboseLevel": "verbose",
    "model": "model",
    "sendPolicy": "send_policy",
    "queueMode": "queue_mode",
    "queueDebounceMs": "queue_debounce_ms",
    "queueCap": "queue_cap",
    "queueDrop": "queue_drop",
    "groupActivation": "group_activation",
    "displayName": "display_name",
}


def _changes(params: SessionPatchParams) -> dict[str, Any]:
    given = msgspec.to_builtins(params)
    given.pop("key")
    for name, words in _ALLOWED.items():
        value = given.get(name)
        if value is not None and value not in words:
            raise Invalid(f"invalid {name} (use {'|'.join(words)})")
    if given.get("model") == "":
        raise Invalid("invalid model: empty")
    return {_COLUMNS[name]: value for name, value in given.items()}
