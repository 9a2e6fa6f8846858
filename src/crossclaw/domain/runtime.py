"""The runtime's words: what the gateway tells a model about the message that it is given.

Everything that changes from run to run is said here, in front of the newest message, and nothing of it in the
system prompt: what was sent before stays as it was, so a prompt cache can keep it and thinking that is bound to
it stays valid.
"""

from collections.abc import Sequence

import msgspec

from crossclaw.domain.compactions import Obligation
from crossclaw.domain.messages import Message, Runtime, UserMessage
from crossclaw.domain.runs import Run

NAME_CHARS_MAX = 60  # of a sender, who may call himself what he likes

_ABOUT = {
    "child": "sub-agent {name} is at work; its report will come by itself. Task: {about}",
    "send": "your message to {name} is not yet settled: {about}",
    "timer": "a timer ({name}) is set for {about}",
}


def with_runtime(
    message: Message | None, run: Run, now: str | None, under_way: Sequence[Obligation] = ()
) -> Message | None:
    """The message as it enters the transcript to be answered by `run`."""
    if now is None or not isinstance(message, UserMessage):
        return message
    session = (
        "" if run.key.is_named_by_us else f"This session is {run.key.display(run.key.agent_id)}."
    )
    lines = [
        " ".join(filter(None, [f"{now}.", _sender(message, run), session])),
        *under_way_lines(under_way),
    ]
    return msgspec.structs.replace(message, runtime=Runtime("\n".join(lines), run.plan.context))


def under_way_lines(obligations: Sequence[Obligation]) -> list[str]:
    if not obligations:
        return []
    lines = [
        _ABOUT[each.kind].format(name=each.name, about=" ".join(each.about.split()))
        for each in obligations
    ]
    return ["Under way in this session:", *(f"- {line}" for line in lines)]


def _sender(message: UserMessage, run: Run) -> str:
    """The sender, if it is a person; the marks around a message say where anything else comes from."""
    provenance = message.provenance
    if provenance is None or provenance.kind != "person":
        return ""
    who = "your owner" if run.authority.owner else "a person who is not your owner"
    name = f', named "{_plain(provenance.sender)}"' if provenance.sender else ""
    address = run.plan.reply_to
    channel = provenance.source_channel or (address.channel if address else None)
    return f"From {who}{name}{f', on {channel}' if channel else ''}."


def _plain(name: str) -> str:
    letters = "".join(letter if letter.isprintable() else " " for letter in name)
    return " ".join(letters.replace('"', "'").split())[:NAME_CHARS_MAX]
