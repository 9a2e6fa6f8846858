"""Insisting: a model that spent its whole answer on thinking is asked once more, with a higher
limit.

An answer that was cut before its first word is paid for and of no use. A second one ends the run
with the reason: to go on would only cost more.
"""

import msgspec

from crossclaw.agent.continuation import cut_call, is_empty
from crossclaw.domain.errors import AnswerCut
from crossclaw.domain.messages import AssistantMessage, Usage
from crossclaw.providers.contract import (
    CallRestarted,
    LostSpending,
    ModelRequest,
    Provider,
    TellPiece,
)

NO_WORD = "the model used the whole length of its answer to think and said nothing"
TRY = (
    "; ask for less at once, choose a lower thinking level (/think low), or raise maxTokens of the model"
    " under models.providers"
)


async def with_words(
    provider: Provider, request: ModelRequest, tell: TellPiece
) -> AssistantMessage:
    """An answer with something in it."""
    answer = await provider.complete(request, tell)
    if answer.stop_reason != "max_tokens" or not is_empty(answer):
        return answer
    tell(LostSpending(answer.usage or Usage()))
    tell(CallRestarted(f"{NO_WORD}; it is asked again with more room"))
    answer = await provider.complete(msgspec.structs.replace(request, more_room=True), tell)
    if answer.stop_reason != "max_tokens" or not is_empty(answer):
        return answer
    tell(LostSpending(answer.usage or Usage()))
    raise AnswerCut(f"{NO_WORD}, twice{TRY}")


def twice_cut(before: str | None, answer: AssistantMessage) -> str | None:
    """The name of the tool in whose call the limit has cut this answer. Raises if the answer before
    was cut in the same tool: the model repeats what cannot be finished."""
    call = cut_call(answer)
    if call is None:
        return None
    if call.name == before:
        raise AnswerCut(
            f"the answer was cut off twice in a row in the middle of a call of {call.name}: what it writes is"
            " longer than one answer may be; ask for it in parts, or raise maxTokens of the model under"
            " models.providers"
        )
    return call.name


def all_spent(usage: Usage | None, lost: Usage | None) -> Usage | None:
    """The cost of an answer and of the failed attempts before it. The window's size is the last
    one's alone."""
    if usage is None or lost is None:
        return usage or lost
    return msgspec.structs.replace(lost + usage, filled=usage.window)
