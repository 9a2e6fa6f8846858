"""Changing: the config file read, replaced, patched and edited by clients of a running gateway.

A change is checked as a whole before anything is written, and keeps the comments of the file. Who
changes says by a hash which text it has seen: what somebody else wrote meanwhile is not undone. Secrets and
rules that were changed hold before the change is answered; the rest is taken over by whoever serves.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.from_thread
import anyio.to_thread

from crossclaw.config.agreeing import value_at
from crossclaw.config.amending import Amended, amend
from crossclaw.config.current import needs_opening
from crossclaw.config.file import ConfigFile
from crossclaw.config.hiding import without_secrets
from crossclaw.config.load import Loaded, load
from crossclaw.config.merging import kept, merged
from crossclaw.config.model import Config
from crossclaw.config.source import read_text
from crossclaw.config.syntax_errors import NotJson5, parse_json5
from crossclaw.domain.errors import ConfigInvalid, Invalid

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


class EditedConfig(NamedTuple):
    """What came of a person's edit."""

    hash: str
    """The hash of the file as it is now."""
    done: Amended | None = None
    """What changes, or why it is refused. None: somebody else has changed the file since, and nothing was written."""
    dropped: tuple[str, ...] = ()
    """Keys that were taken out, because the address beside them is another one now."""
    restart: dict[str, Any] | None = None

    @property
    def is_accepted(self) -> bool:
        return self.done is not None and not self.done.faults


class ConfigChanges:
    """The config file as clients read and change it, one change at a time."""

    def __init__(
        self,
        loaded: Loaded,
        environ: Mapping[str, str],
        take_rules: TakeRules | None = None,
        share: ShareConfig | None = None,
    ) -> None:
        self._loaded = loaded
        self._share = share
        self._environ = environ
        self._writing = anyio.Lock()
        self._take_rules = take_rules
        self._way = BY_HAND if loaded.config.gateway.reload.mode == "off" else BY_ITSELF

    async def snapshot(self) -> dict[str, Any]:
        """The file as it is now, every secret left out; while there is none, the config in force."""
        return await anyio.to_thread.run_sync(self._snapshot)

    async def set(self, raw: str, base_hash: str | None) -> dict[str, Any]:
        """Replaces the whole text of the file."""
        return await self._write(lambda: self._set(raw, base_hash))

    async def patch(
        self, raw: str, base_hash: str | None, replaced: frozenset[str]
    ) -> dict[str, Any]:
        """Changes some keys of the file. `replaced` names the lists that take the place of those in the file; other
        lists are joined with them."""
        return await self._write(lambda: self._patch(raw, base_hash, replaced))

    async def edit(self, raw: str, base_hash: str | None, *, save: bool) -> EditedConfig:
        """The text that a person was shown, as the person has changed it."""
        async with self._writing:
            edited = await anyio.to_thread.run_sync(lambda: self._edit(raw, base_hash, save=save))
            if not edited.is_accepted or not save:
                return edited
            done = await self._in_force({"restart": edited.restart})
            return edited._replace(restart=done["restart"])

    async def change(self, work: Callable[[ConfigFile], object]) -> Config:
        """A change of the file by another service, under the same rules; in force when this returns. Answers what
        stands in it now."""
        async with self._writing:
            await self._in_force(await anyio.to_thread.run_sync(self._changed, work))
            return await self.read()

    async def read(self) -> Config:
        """What stands in the file now."""
        return (await anyio.to_thread.run_sync(load, self._loaded.path, self._environ)).config

    async def _write(self, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        async with self._writing:
            return await self._in_force(await anyio.to_thread.run_sync(work))

    def _changed(self, work: Callable[[ConfigFile], object]) -> dict[str, Any]:
        file = self._file()
        work(file)
        return self._saved(file)

    async def _in_force(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Puts a change in force before it is answered, so that nothing is done by the old rules afterwards."""
        if self._take_rules is None or self._way is BY_HAND or answer.get("noop"):
            return answer
        fresh = await anyio.to_thread.run_sync(load, self._loaded.path, self._environ)
        if (why_not := await self._take_rules(fresh)) is None:
            return answer
        reason = f"the config before holds on: {why_not}"
        return {**answer, "restart": {"ok": False, "required": False, "reason": reason}}

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

    def _open(self, base_hash: str | None) -> ConfigFile:
        text = _text_of(self._loaded.path)
        begun = text is not None and text.strip() != "{}"  # as the start makes a missing one
        if begun and base_hash is None:
            raise Invalid("config base hash required; re-run config.get and retry")
        if base_hash is not None and base_hash != _hash(text):
            raise Invalid("config changed since last load; re-run config.get and retry")
        return self._file()

    def _file(self) -> ConfigFile:
        """Opens the config file, to be used in a thread; what is saved is stored for other gateways first."""
        share = self._share
        agree = None if share is None else lambda new: anyio.from_thread.run(share, new)
        return ConfigFile(self._loaded.path, self._environ, from_wire=True, agree=agree)

    def _set(self, raw: str, base_hash: str | None) -> dict[str, Any]:
        file = self._open(base_hash)
        before, shown = file.value, self._shown()
        file.replace(raw)
        if not isinstance(file.value, dict):
            raise Invalid("config.set raw must be an object")
        for path, value in kept(file.value, shown, before):
            file.put(path, value)
        return self._saved(file)

    def _patch(self, raw: str, base_hash: str | None, replaced: frozenset[str]) -> dict[str, Any]:
        file = self._open(base_hash)
        try:
            changes = parse_json5(raw)
        except NotJson5 as error:
            raise Invalid(f"config.patch raw is not JSON5: {error}") from None
        if not isinstance(changes, dict):
            raise Invalid("config.patch raw must be an object")
        before, text = file.value, file.text
        for path, value in merged(changes, before, replaced):
            if value is None:
                file.remove(path)
            elif value_at(before, path) != value:
                file.put(path, value)
        if file.text == text:
            shown = self._shown()
            return {"ok": True, "noop": True, "path": str(file.path), "config": shown}
        return self._saved(file)

    def _edit(self, raw: str, base_hash: str | None, *, save: bool) -> EditedConfig:
        now = _hash(_text_of(self._loaded.path))
        if base_hash != now:
            return EditedConfig(now)
        file = self._file()
        done = amend(file, raw, save=save)
        now = _hash(_text_of(self._loaded.path))
        return EditedConfig(now, done, tuple(file.dropped), self._restart())

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


def _text_of(path: Path) -> str | None:
    return read_text(path) if path.exists() else None


def _hash(text: str | None) -> str:
    return hashlib.sha256((text or "").encode()).hexdigest()
