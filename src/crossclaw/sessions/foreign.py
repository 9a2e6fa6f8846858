"""Sessions of OpenClaw's store: its keys, its columns, and where its transcripts lie."""

import os
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

import msgspec

from crossclaw.config.syntax_errors import NotJson5, parse_json5
from crossclaw.domain.errors import Invalid, InvalidKey
from crossclaw.domain.keys import RESERVED, SHARED, SessionKey
from crossclaw.sandbox.files import find_file
from crossclaw.transcripts.foreign import ForeignLine, parse_time, replace_lone_surrogates

SUFFIX, TOPIC = ".jsonl", "-topic-"
HEADER_BYTES_MAX = 64_000  # an id, a time and a folder

_COLUMNS = {
    "channel": "channel",
    "displayName": "display_name",
    "label": "label",
    "spawnedBy": "spawned_by",
    "thinkingLevel": "thinking",
    "verboseLevel": "verbose",
    "sendPolicy": "send_policy",
    "queueMode": "queue_mode",
    "queueDebounceMs": "queue_debounce_ms",
    "queueCap": "queue_cap",
    "queueDrop": "queue_drop",
    "groupActivation": "group_activation",
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "totalTokens": "total_tokens",
    "contextTokens": "context_tokens",
    "compactionCount": "compactions",
    "systemSent": "system_sent",
    "abortedLastRun": "aborted_last_run",
}
_ADDRESS = {
    "last_channel": ("lastChannel", "channel"),
    "last_to": ("lastTo", "to"),
    "last_account_id": ("lastAccountId", "accountId"),
    "last_thread_id": ("lastThreadId", "threadId"),
}
_NOT_KEPT = frozenset(
    {
        *("skillsSnapshot", "systemPromptReport", "sessionId", "updatedAt", "sessionFile"),
        *(
            "sessionDiffBaseline",
            "contextBudgetStatus",
            "lifecycleRevision",
            "activeWriterRunId",
            "delivery",
        ),
    }
)


def columns_of(entry: dict[str, Any]) -> dict[str, Any]:
    """The columns of our row for an entry; other settings of the session are kept under their own names."""
    found = {
        ours: entry[theirs]
        for theirs, ours in _COLUMNS.items()
        if entry.get(theirs) is not None and _can_be_kept(entry[theirs])
    }
    context = entry.get("deliveryContext") or _delivery_context(entry.get("delivery"))
    context = context if isinstance(context, dict) else {}
    for column, (last, of_context) in _ADDRESS.items():
        value = entry.get(last) or context.get(of_context)
        if value is not None:
            found[column] = str(value)
    if model := entry.get("modelOverride"):
        provider = entry.get("providerOverride")
        found["model"] = f"{provider}/{model}" if provider else str(model)
    known = {*_COLUMNS, *_NOT_KEPT, "deliveryContext", "modelOverride", "providerOverride"}
    known |= {last for last, _ in _ADDRESS.values()}
    rest = {name: v for name, v in entry.items() if name not in known and v is not None}
    return {name: v for name, v in found.items() if _fits(name, v)} | ({"overrides": rest} if rest else {})  # fmt: skip


def _delivery_context(delivery: Any) -> Any:
    """The address of an entry of 2026.9: `{"kind": "external", "context": {"channel": …, "to": …}, …}`."""
    return delivery.get("context") if isinstance(delivery, dict) else None


def _fits(column: str, value: Any) -> bool:
    numbers = column.endswith("tokens") or column in (
        "compactions",
        "queue_debounce_ms",
        "queue_cap",
        "system_sent",
        "aborted_last_run",
    )
    return isinstance(value, int | float) if numbers else isinstance(value, str)


def key_of(agent_id: str, name: str) -> tuple[SessionKey, bool]:
    """Our key for theirs, and whether it is a past transcript of it: a single run of a job."""
    text = name.strip()
    if text == SHARED:
        return SessionKey.shared(agent_id), False
    bare = text.split(":", 2)[2] if text.startswith("agent:") and text.count(":") >= 2 else text
    if text in RESERVED or bare in RESERVED:
        raise InvalidKey(f"{name!r} is a reserved key and stands for no session")
    job, run, _ = bare.partition(":run:")
    if bare.startswith("cron:") and run:
        owner = text.split(":", 2)[1] if text.startswith("agent:") else agent_id
        return SessionKey.named(owner, job), True
    if text.startswith("agent:"):
        return SessionKey.parse(text), False
    return SessionKey.named(agent_id, text), False


def canonical_first(name: str) -> tuple[bool, bool, str]:
    return ":run:" in name, not name.startswith("agent:"), name


def _can_be_kept(value: Any) -> bool:
    if isinstance(value, int | float):
        return abs(value) <= NUMBER_MAX  # not a number and endless ones are not, either
    return not isinstance(value, str) or value.isprintable()


class TranscriptFolder:
    """The transcripts in a store's folder, listed once: there may be a hundred thousand."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: set[str] = set()
        self._topics: dict[str, list[str]] = {}
        with os.scandir(folder) as found:
            # Not where a link leads: what lies elsewhere was not asked for.
            for each in found:
                if each.name.endswith(SUFFIX) and each.is_file(follow_symlinks=False):
                    self._files.add(each.name)
        for name in sorted(self._files):
            for session_id in _topic_of(name):
                self._topics.setdefault(session_id, []).append(name)

    def find(self, entry: dict[str, Any], session_id: str) -> Path | None:
        """The file in the store's own folder that the entry names."""
        written = entry.get("sessionFile")
        tried = [session_id + SUFFIX, *self._topics.get(session_id, ())]
        if isinstance(written, str) and written:
            tried = [Path(written).name, *tried]
        return next((self._folder / name for name in tried if name in self._files), None)

    def count_unnamed(self, session_ids: Set[str], files: Set[str]) -> int:
        """Counts the transcripts that belong to none of these sessions."""
        return sum(
            name not in files
            and name.removesuffix(SUFFIX) not in session_ids
            and not any(each in session_ids for each in _topic_of(name))
            for name in self._files
        )


def _topic_of(name: str) -> Iterator[str]:
    """The ids of sessions whose topic the file may be: what stands before any `-topic-` in its name."""
    found = name.find(TOPIC)
    while found >= 0:
        yield name[:found]
        found = name.find(TOPIC, found + 1)


def begun_at(path: Path | None) -> int:
    """The time of the first line; 0 when it cannot be read."""
    if path is None:
        return 0
    with find_file(path.parent, path.name) as file:
        raw = b"" if file is None else file.readline(HEADER_BYTES_MAX)
    try:
        return parse_time(msgspec.json.decode(raw, type=ForeignLine).timestamp)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return 0


def is_file_name(text: str) -> bool:
    return 0 < len(text) <= 128 and text.isprintable() and not set(text) & set("/\\*?[]") and text[0] != "."  # fmt: skip


NUMBER_MAX = 2**53  # what JSON carries exactly; more is damage


def number_of(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and 0 < value <= NUMBER_MAX else None


def read_store(raw: bytes) -> Any:
    """What a sessions.json says, also one that somebody edited by hand."""
    try:
        return msgspec.json.decode(raw)
    except RecursionError:
        raise Invalid("nested too deeply to be read") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = replace_lone_surrogates(raw).decode("utf-8", "replace")
    try:
        return parse_json5(text)
    except NotJson5 as error:
        raise Invalid(f"no JSON: {error}") from None
