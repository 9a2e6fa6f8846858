"""ScriptedProvider: a model that answers from a list or a function and remembers what it was asked."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence

import anyio
import anyio.lowlevel
import msgspec

from crossclaw.agent.origin import OPEN
from crossclaw.domain.messages import AssistantBlock, AssistantMessage, Text, ToolUse
from crossclaw.providers.contract import ModelRequest, TellPiece, Turn
from crossclaw.providers.pieces import count_usage, pieces_of


class CutOff(msgspec.Struct, frozen=True):
    """An answer of some words after which the connection breaks."""

    words: str
    error: Exception


ScriptedAnswer = AssistantMessage | str | ToolUse | Sequence[AssistantBlock] | Exception | CutOff
ScriptedAnswerer = Callable[[ModelRequest], ScriptedAnswer]


class ScriptExhausted(AssertionError):
    """The code under test asked the model once more than the test expected."""


class ScriptedProvider:
    """A scripted model: one line an answer: `["hello", [ToolUse("c1", "read", {})], ProviderOverloaded("no")]`.

    A line may be a function of the request; a function in place of the list answers everything, which is how
    several sessions are told apart. `seen` holds the requests in order.
    """

    def __init__(
        self,
        script: Iterable[ScriptedAnswer | ScriptedAnswerer] | ScriptedAnswerer,
        *,
        name: str = "scripted",
        delay_s: float = 0.0,
    ) -> None:
        self.name = name
        self.seen: list[ModelRequest] = []
        self._answer = script if callable(script) else None
        self._lines = deque(() if callable(script) else script)
        self._delay_s = delay_s

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        self.seen.append(request)
        line = self._answer or self._next_line(request)
        await anyio.sleep(self._delay_s)
        answer = line(request) if callable(line) else line
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, CutOff):
            for piece in pieces_of([Text(answer.words)]):
                tell(piece)
            raise answer.error
        message = self._message(request, answer)
        for piece in pieces_of(message.blocks):
            tell(piece)
        return message

    async def close(self) -> None:
        pass

    @property
    def left(self) -> int:
        """The number of lines not used yet; a test may assert that there are none."""
        return len(self._lines)

    def _next_line(self, request: ModelRequest) -> ScriptedAnswer | ScriptedAnswerer:
        if not self._lines:
            raise ScriptExhausted(
                f"the script of {self.name!r} has no answer left for request {len(self.seen)}:"
                f" {request.turns[-1:]!r}"
            )
        return self._lines.popleft()

    def _message(
        self,
        request: ModelRequest,
        answer: AssistantMessage | str | ToolUse | Sequence[AssistantBlock],
    ) -> AssistantMessage:
        if isinstance(answer, AssistantMessage):
            return answer
        blocks = _blocks(answer)
        calls = any(isinstance(block, ToolUse) for block in blocks)
        return AssistantMessage(
            content=blocks,
            provider=self.name,
            model=request.model,
            usage=count_usage(request, blocks),
            stop_reason="tool_use" if calls else "end_turn",
        )


def _blocks(answer: str | ToolUse | Sequence[AssistantBlock]) -> list[AssistantBlock]:
    match answer:
        case str(text):
            return [Text(text)]
        case ToolUse():
            return [answer]
        case _:
            return list(answer)


def instructions_of(request: ModelRequest) -> str:
    """The system prompt and what the gateway says about the newest message: what a run knows."""
    said = [_runtime(turn) for turn in request.turns]
    return "\n\n".join([request.system, *next((words for words in reversed(said) if words), [])])


def _runtime(turn: Turn) -> list[str]:
    texts = [block.text for block in turn.content if isinstance(block, Text)]
    return [text for text in texts if text.startswith(f"{OPEN}runtime")]


def message_texts(turn: Turn) -> list[str]:
    """The texts of a turn without what the gateway says in front of each message."""
    texts = [block.text for block in turn.content if isinstance(block, Text)]
    return [text for text in texts if not text.startswith(f"{OPEN}runtime")]
