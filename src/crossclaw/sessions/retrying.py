"""Retrying: what a run that did not end well was asked, said once more in its session."""

import msgspec

from crossclaw.domain.addresses import WEBCHAT
from crossclaw.domain.errors import Invalid, NotFound
from crossclaw.domain.messages import Provenance, Text, UserBlock, UserMessage
from crossclaw.domain.runs import Run, RunPlan
from crossclaw.door.registry import Caller
from crossclaw.door.resolver import Resolver
from crossclaw.ledger.contract import Ledger
from crossclaw.sessions.arrivals import Accepted, Arrival, Replied, RequestId
from crossclaw.sessions.intake import Intake


class Retries:
    """Begins failed runs again. Asked twice for the same run, it is one run."""

    def __init__(self, ledger: Ledger, resolver: Resolver, intake: Intake) -> None:
        self._ledger = ledger
        self._resolver = resolver
        self._intake = intake

    async def retry(self, caller: Caller, run_id: str) -> Accepted | Replied:
        run = await self._ledger.find_run(run_id)
        if run is None:
            raise NotFound(f"there is no run {run_id}")
        handle = await self._resolver.resolve(caller.principal, run.key.text, "send")
        if not run.ended or run.status == "ok":
            raise Invalid(f"run {run.run_id} has not failed: there is nothing to retry")
        message = await self._message_of(run)
        text, blocks = _parts(message)
        return await self._intake.require(
            Arrival(
                road="chat",
                to=handle,
                text=text,
                attachments=blocks,
                origin=message.provenance or Provenance("person", source_channel=WEBCHAT),
                caller=_within(caller, run),
                may_command=False,
                request=RequestId(id=f"retry-{run.run_id}"),
                plan=RunPlan(reply_to=run.plan.reply_to, model=run.plan.model),
                spelled=run.key.text,
            )
        )

    async def _message_of(self, run: Run) -> UserMessage:
        entries = await self._ledger.monitoring.entries_of_run(run.session_id, run.run_id)
        for entry in await self._ledger.with_media(entries[:1]):
            if isinstance(entry.message, UserMessage):
                return entry.message
        raise Invalid("what this run was asked is not there any more; say it again in the chat")


def _within(caller: Caller, run: Run) -> Caller:
    """The caller, with the authority that the run has too. Whoever asks for it again has not written the words:
    they may no more than they did before, and no more than the caller may. The caller's credential answers for it
    now."""
    return caller.within(msgspec.structs.replace(run.authority, made_by=frozenset()))


def _parts(message: UserMessage) -> tuple[str, list[UserBlock]]:
    """Its words, and what came along."""
    if isinstance(message.content, str):
        return message.content, []
    words = [block.text for block in message.content if isinstance(block, Text)]
    return "\n".join(words), [each for each in message.content if not isinstance(each, Text)]
