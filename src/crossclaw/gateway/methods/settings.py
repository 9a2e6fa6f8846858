"""config.*: the config file read, changed and described. Secrets and rules that were changed hold
before the change is answered; the rest is taken over when no run is under way, by whoever serves.

A change is checked as a whole before anything is written, and keeps the comments of the file. Who
changes says by `baseHash` which text it has seen: what somebody else wrote meanwhile is not undone.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import anyio
import anyio.from_thread
import anyio.to_thread
import msgspec

from crossclaw import __version__
from crossclaw.config import Config, Loaded, load
from crossclaw.config.amending import amend, twin
from crossclaw.config.current import needs_opening
from crossclaw.config.file import ConfigFile
from crossclaw.config.hiding import HIDDEN, without_secrets
from crossclaw.config.positions import KeyPath
from crossclaw.config.section import Loose, Secrets
from crossclaw.config.source import child_of, dotted, read_text
from crossclaw.config.syntax_errors import NotJson5, parse_json5
from crossclaw.domain.aliases import Filled
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import ConfigInvalid, Invalid
from crossclaw.domain.secret import Secret
from crossclaw.door.registry import Caller, NoParams, Params, Result, method

BY_ITSELF = {
    "ok": True,
    "required": False,
    "reason": "secrets and rules hold from now on; the gateway takes over the rest by itself, as soon "
    "as no run is under way",
}
BY_HAND = {
    "ok": False,
    "required": True,
    "reason": "with gateway.reload.mode off a config is read at the start; restart the gateway",
}

TakeRules = Callable[[Loaded], Awaitable[str | None]]
"""Puts secrets and rules in force; answers why it cannot."""

ShareConfig = Callable[[Loaded], Coroutine[Any, Any, None]]
"""Stores for other gateways what the file will say; raises where one of them has changed it meanwhile."""

ConfigText = Annotated[str, msgspec.Meta(min_length=1, max_length=2**20)]


class ConfigSetParams(Params, frozen=True):
    raw: ConfigText
    base_hash: Filled | None = None


class ConfigPatchParams(ConfigSetParams, frozen=True):
    """What OpenClaw's clients add about the restart that follows is accepted, and not used: a gateway
    that opens again goes on with everything, and has nobody to be told."""

    replace_paths: tuple[Filled, ...] = ()
    session_key: str | None = None
    delivery_context: dict[str, Any] | None = None
    note: str | None = None
    restart_delay_ms: int | None = None


class ConfigEditParams(ConfigSetParams, frozen=True):
    """`raw` is the text that config.get gave as `written`, changed."""

    dry_run: bool = False


class EditFault(Result, frozen=True):
    line: int
    key: str
    message: str


class EditResult(Result, frozen=True):
    ok: bool
    stale: bool = False
    """Somebody else has changed the file since: get it again. Nothing was written."""
    problems: tuple[EditFault, ...] = ()
    changed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    hash: str | None = None
    restart: dict[str, Any] | None = None


class Settings:
    def __init__(
        self,
        loaded: Loaded,
        environ: Mapping[str, str],
        clock: Clock,
        take_rules: TakeRules | None = None,
        share: ShareConfig | None = None,
    ) -> None:
        self._loaded = loaded
        self._share = share
        self._environ = environ
        self._clock = clock
        self._writing = anyio.Lock()
        self._take_rules = take_rules
        self._way = BY_HAND if loaded.config.gateway.reload.mode == "off" else BY_ITSELF

    @method("config.get", "operator.read", "read", "The config file, without secrets.")
    async def get(self, caller: Caller, params: NoParams) -> dict[str, Any]:
        return await anyio.to_thread.run_sync(self._snapshot)

    @method("config.set", "operator.admin", "change", "Another text in place of the config file.")
    async def set(self, caller: Caller, params: ConfigSetParams) -> dict[str, Any]:
        async with self._writing:
            return await self._in_force(await anyio.to_thread.run_sync(self._set, params))

    @method(
        "config.patch",
        "operator.admin",
        "change",
        "Change some of the config file; null takes a key out.",
    )
    async def patch(self, caller: Caller, params: ConfigPatchParams) -> dict[str, Any]:
        async with self._writing:
            return await self._in_force(await anyio.to_thread.run_sync(self._patch, params))

    @method(
        "config.edit",
        "operator.admin",
        "change",
        "The config file as a person edited it; tells what is wrong by line, and keeps comments and secrets.",
    )
    async def edit(self, caller: Caller, params: ConfigEditParams) -> EditResult:
        async with self._writing:
            edited = await anyio.to_thread.run_sync(self._edit, params)
            if not edited.ok or params.dry_run:
                return edited
            done = await self._in_force({"restart": edited.restart})
            return msgspec.structs.replace(edited, restart=done["restart"])

    async def change(self, work: Callable[[ConfigFile], object]) -> Config:
        """A change of the file by another method, under the same rules; in force when this returns. Answers what
        stands in it now."""
        async with self._writing:
            await self._in_force(await anyio.to_thread.run_sync(self._changed, work))
            fresh = await anyio.to_thread.run_sync(load, self._loaded.path, self._environ)
            return fresh.config

    async def read(self) -> Config:
        """What stands in the file now."""
        return (await anyio.to_thread.run_sync(load, self._loaded.path, self._environ)).config

    def _changed(self, work: Callable[[ConfigFile], object]) -> dict[str, Any]:
        file = self._file()
        work(file)
        return self._saved(file)

    async def _in_force(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Before it is answered, so that nothing is done by the old rules afterwards."""
        if self._take_rules is None or self._way is BY_HAND or answer.get("noop"):
            return answer
        fresh = await anyio.to_thread.run_sync(load, self._loaded.path, self._environ)
        if (why_not := await self._take_rules(fresh)) is None:
            return answer
        reason = f"the config before holds on: {why_not}"
        return {**answer, "restart": {"ok": False, "required": False, "reason": reason}}

    @method(
        "config.schema",
        "operator.read",
        "read",
        "What may stand in the config file, as JSON Schema.",
    )
    async def schema(self, caller: Caller, params: NoParams) -> dict[str, Any]:
        made = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        return {
            "schema": config_schema(),
            "uiHints": {},
            "version": __version__,
            "generatedAt": made.isoformat(),
        }

    # ── reading ────────────────────────────────────────────────────────────────────────────────

    def _snapshot(self) -> dict[str, Any]:
        """The file as it is now, every secret left out; while there is none, the config in force."""
        path, issues, warnings = (
            self._loaded.path,
            list[dict[str, str]](),
            self._loaded.all_warnings,
        )
        text = _text_of(path)
        shown = self._loaded.config.redacted()
        if text is not None:
            try:
                found = load(path, self._environ)
                shown, warnings = found.config.redacted(), found.all_warnings
            except ConfigInvalid as error:
                issues = [{"path": "", "message": str(error)}]
        return {
            "path": str(path),
            "exists": text is not None,
            "raw": None,
            "parsed": shown,
            "valid": not issues,
            "config": shown,
            "written": self._written(),
            "hash": _hash(text),
            "restart": self._restart(),
            "issues": issues,
            "warnings": [{"path": "", "message": each} for each in warnings],
            "legacyIssues": [],
        }

    def _written(self) -> str | None:
        """What stands in the file, without secrets and comments; None when it cannot be read."""
        try:
            value = self._file().value
        except ConfigInvalid:
            return None
        return json.dumps(without_secrets(value), ensure_ascii=False, indent=2) + "\n"

    def _restart(self) -> dict[str, Any] | None:
        """Whether the file says something else than what is in force."""
        try:
            now = load(self._loaded.path, self._environ).raw
        except ConfigInvalid:
            return None
        return self._way if needs_opening(self._loaded.raw, now) else None

    def _shown(self) -> dict[str, Any]:
        try:
            return load(self._loaded.path, self._environ).config.redacted()
        except ConfigInvalid:
            return {}  # a file that does not load is fixed by one that does

    # ── changing ───────────────────────────────────────────────────────────────────────────────

    def _open(self, params: ConfigSetParams) -> ConfigFile:
        text = _text_of(self._loaded.path)
        begun = text is not None and text.strip() != "{}"  # as the start makes a missing one
        if begun and params.base_hash is None:
            raise Invalid("config base hash required; re-run config.get and retry")
        if params.base_hash is not None and params.base_hash != _hash(text):
            raise Invalid("config changed since last load; re-run config.get and retry")
        return self._file()

    def _file(self) -> ConfigFile:
        """To be used in a thread; what is saved is stored for other gateways first."""
        share = self._share
        agree = None if share is None else lambda new: anyio.from_thread.run(share, new)
        return ConfigFile(self._loaded.path, self._environ, from_wire=True, agree=agree)

    def _set(self, params: ConfigSetParams) -> dict[str, Any]:
        file = self._open(params)
        before, shown = file.value, self._shown()
        file.replace(params.raw)
        if not isinstance(file.value, dict):
            raise Invalid("config.set raw must be an object")
        for path, value in kept(file.value, shown, before):
            file.put(path, value)
        return self._saved(file)

    def _patch(self, params: ConfigPatchParams) -> dict[str, Any]:
        file = self._open(params)
        try:
            changes = parse_json5(params.raw)
        except NotJson5 as error:
            raise Invalid(f"config.patch raw is not JSON5: {error}") from None
        if not isinstance(changes, dict):
            raise Invalid("config.patch raw must be an object")
        before, text = file.value, file.text
        for path, value in merged(changes, before, frozenset(params.replace_paths)):
            if value is None:
                file.remove(path)
            elif _at(before, path) != value:
                file.put(path, value)
        if file.text == text:
            shown = self._shown()
            return {"ok": True, "noop": True, "path": str(file.path), "config": shown}
        return self._saved(file)

    def _edit(self, params: ConfigEditParams) -> EditResult:
        now = _hash(_text_of(self._loaded.path))
        if params.base_hash != now:
            return EditResult(ok=False, stale=True, hash=now)
        file = self._file()
        done = amend(file, params.raw, save=not params.dry_run)
        return EditResult(
            ok=not done.faults,
            problems=tuple(
                EditFault(line=f.line, key=f.key, message=f.message) for f in done.faults
            ),
            changed=done.keys,
            warnings=(*done.warnings, *map(key_dropped, file.dropped)),
            hash=_hash(_text_of(self._loaded.path)),
            restart=self._restart(),
        )

    def _saved(self, file: ConfigFile) -> dict[str, Any]:
        shown = file.save().config.redacted()
        return {
            "ok": True,
            "path": str(file.path),
            "config": shown,
            "hash": _hash(file.text),
            "restart": self._way,
            **({"warnings": list(map(key_dropped, file.dropped))} if file.dropped else {}),
        }


def key_dropped(path: str) -> str:
    return f"{path} was taken out, because its address is another one now; give it again"


# ── what a change means ────────────────────────────────────────────────────────────────────────


def kept(sent: Any, shown: Any, written: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """What came back as it was shown, and is written otherwise: secrets, variables. That stays."""
    if isinstance(sent, dict):
        for name, child in sent.items():
            yield from kept(child, child_of(shown, name), child_of(written, name), (*path, name))
    elif isinstance(sent, list):
        for index, child in enumerate(sent):
            was = twin(shown, sent, index) if isinstance(shown, list) else None
            before = (None, None) if was is None else (child_of(shown, was), child_of(written, was))
            yield from kept(child, before[0], before[1], (*path, index))
    elif written is not None and sent == shown and sent != written:
        yield path, written
    elif sent == HIDDEN and written is None:
        raise Invalid(
            f"{dotted(path)}: {HIDDEN} stands for a secret, and it is not clear which; write it itself"
        )


def merged(
    changes: dict[str, Any], before: Any, replaced: frozenset[str], path: KeyPath = ()
) -> Iterator[tuple[KeyPath, Any]]:
    """Each place that changes with its new value; None: nothing is to be there."""
    for name, value in changes.items():
        here, old = (*path, name), child_of(before, name)
        if isinstance(value, dict) and isinstance(old, dict):
            yield from merged(value, old, replaced, here)
        elif _by_id(value) and _by_id(old) and dotted(here) not in replaced:
            yield here, _joined(old, value)
        else:
            _refuse_hidden(value, here)
            yield here, _without_null(value)


def _joined(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Things with an id are changed by their id; those that are not named stay."""
    changed = {each["id"]: dict(each) for each in old}
    for each in new:
        mine = changed.setdefault(each["id"], {})
        for path, value in merged(each, mine, frozenset()):
            _put(mine, path, value)
    return list(changed.values())


def _put(target: dict[str, Any], path: KeyPath, value: Any) -> None:
    for step in path[:-1]:
        target = target[step]  # type: ignore[index]
    if value is None:
        target.pop(str(path[-1]), None)
    else:
        target[str(path[-1])] = value


def _by_id(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(e, dict) and e.get("id") for e in value)


def _without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_null(child) for name, child in value.items() if child is not None}
    return value


def _refuse_hidden(value: Any, path: KeyPath) -> None:
    for place, found in _leaves(value, path):
        if found == HIDDEN:
            raise Invalid(f"{dotted(place)}: {HIDDEN} is not a value; leave the key out to keep it")


def _leaves(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    steps = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else None
    )
    if steps is None:
        yield path, value
        return
    for step, child in steps:
        yield from _leaves(child, (*path, step))


def _at(value: Any, path: KeyPath) -> Any:
    for step in path:
        value = child_of(value, step)
    return value


def _text_of(path: Path) -> str | None:
    return read_text(path) if path.exists() else None


def _hash(text: str | None) -> str:
    return hashlib.sha256((text or "").encode()).hexdigest()


# ── what may stand in it ───────────────────────────────────────────────────────────────────────


def config_schema() -> dict[str, Any]:
    """Without references: forms that are drawn from it do not follow them."""
    (top,), definitions = msgspec.json.schema_components(
        [Config], schema_hook=_own_kinds, ref_template="{name}"
    )
    return {**_inlined(top, definitions), "$schema": "https://json-schema.org/draft/2020-12/schema"}


def _own_kinds(kind: type) -> dict[str, Any]:
    if kind is Secret:
        return {"type": ["string", "object"], "writeOnly": True}
    assert issubclass(kind, Loose | Secrets)
    return {"type": "object"}


def _inlined(schema: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_inlined(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if name := schema.get("$ref"):
        return _inlined(definitions[name], definitions)
    return {name: _inlined(part, definitions) for name, part in schema.items()}
