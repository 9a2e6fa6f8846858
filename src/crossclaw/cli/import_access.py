"""`import`, chats: people who were paired with OpenClaw's accounts may write to ours too."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from crossclaw.channels.registry import find_manifest
from crossclaw.domain.errors import CrossclawError
from crossclaw.ledger.channels import ChatPairingRequest, DecidePairing, RequestPairing
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.openclaw import ChatAccess
from crossclaw.sandbox.files import read_file

FILES = "credentials/*-allowFrom.json"  # of 2026.2: <channel>-allowFrom.json, <channel>-<account>-allowFrom.json
BYTES_MAX = 10_000_000
PAIRED_MAX = 100_000  # people of one gateway's accounts; more is no list of persons
_MINUTE_MS = 60_000


class AccessReport(NamedTuple):
    come: list[str]
    """The imported people, as `channel:account:sender`."""
    before: int
    left: list[str]


class _AllowFile(msgspec.Struct, rename="camel"):
    allow_from: list[str | int] = []


def access_in_files(folder: Path) -> Iterator[ChatAccess]:
    for path in sorted(folder.glob(FILES)):
        channel, _, account = path.name.removesuffix("-allowFrom.json").partition("-")
        raw = read_file(folder, str(path.relative_to(folder)), BYTES_MAX) or b""
        try:
            listed = msgspec.json.decode(raw, type=_AllowFile).allow_from
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
        yield from (ChatAccess(channel, account or "default", str(sender)) for sender in listed)


async def bring_access(
    ledger: Ledger | None, found: Collection[ChatAccess], known: Collection[str], now_ms: int
) -> AccessReport:
    """Imports paired people. `known` were imported before: whoever was removed here since does not come back
    by another import."""
    report = AccessReport([], 0, [])
    for each in dict.fromkeys(found):
        name = f"{each.channel}:{each.account_id}:{each.sender}"
        if each.code is not None:
            report.left.append(
                f"{name} asked to be paired and waits for an answer: let them write again"
            )
            continue
        manifest = find_manifest(each.channel)
        sender = manifest.normalize_sender(each.sender) if manifest else None
        if manifest is None or sender is None:
            why = (
                "there is no such channel here" if manifest is None else "this is no id of a person"
            )
            report.left.append(f"{name} was paired: {why}")
        elif name in known or await _is_paired(ledger, manifest.name, each.account_id, sender):
            report = report._replace(before=report.before + 1)
        else:
            if ledger is not None:
                await _pair(ledger, manifest.name, each.account_id, sender, now_ms)
            report.come.append(name)
    return report


async def _is_paired(ledger: Ledger | None, channel: str, account_id: str, sender: str) -> bool:
    return ledger is not None and await ledger.is_paired(channel, account_id, [sender])


async def _pair(ledger: Ledger, channel: str, account_id: str, sender: str, now_ms: int) -> None:
    """Pairs a sender as if they had asked and been approved."""
    asked = await ledger.do(
        RequestPairing(
            request=ChatPairingRequest(
                channel=channel,
                account_id=account_id,
                sender=sender,
                code=f"import-{sender}",
                created_at=now_ms,
                last_seen_at=now_ms,
                expires_at=now_ms + _MINUTE_MS,
            ),
            pending_max=PAIRED_MAX,
        )
    )
    if asked is None:
        raise CrossclawError(f"{channel}: too many ask to be paired")
    decided = DecidePairing(
        channel=channel,
        code=asked.code,
        approve=True,
        at=now_ms,
        by="import",
        account_id=account_id,
    )
    await ledger.do(decided)
