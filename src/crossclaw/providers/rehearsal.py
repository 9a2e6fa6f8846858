"""Rehearsal: a scripted model without key or network, so that everything else can be tried.

It does what the lines of the latest user message say:

    say: <text>            answer exactly this, with the lines below it up to the next of these words; several join
    tool: <name> {json}    call a tool; several lines are several calls at once
    ask: <agent> <words>   send this to another agent and repeat its reply; the words may be such lines too
    think: <text>          think it first
    wait: <seconds>        sleep before answering
    fail: <text>           fail with this error
    long: <n>              answer with n words
    cut: <text>            answer this as if the output limit had cut it off
    then:                  the next step, after the tool results of this one

“Ask the librarian for the atlas” in plain words is an ask: too.

It keeps nothing between calls: the step is counted from the turns after those lines, so the same
conversation gets the same answer, also after a crash.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

import anyio
import anyio.lowlevel
import msgspec

from crossclaw.display.languages import tr
from crossclaw.domain.errors import ProviderError
from crossclaw.domain.messages import (
    AssistantBlock,
    AssistantMessage,
    StopReason,
    Text,
    Thinking,
    ToolUse,
)
from crossclaw.domain.texts import with_ellipsis
from crossclaw.providers.calls import make_call_id, parse_arguments, tool_names
from crossclaw.providers.contract import AssistantTurn, ModelRequest, TellPiece, Turn, UserTurn
from crossclaw.providers.pieces import count_usage, pieces_of

WAIT_S_MAX = 3600.0
"""The longest wait. No run lives longer; a typing mistake should not block a lane for days."""
LONG_WORDS_MAX = 100_000
"""The most words of `long:`, about the longest answer of a real model."""
PIECES_AT_ONCE = 32
"""How many pieces are sent before others get a turn, so that a long answer can be cancelled and
others go on."""
QUOTE_CHARS = 120

_DIRECTIVE = re.compile(
    r"^\s*(?:\[[^\]\n]*\]\s*)?(say|tool|ask|think|wait|fail|long|cut|then):[ \t]?(.*)$",
    re.IGNORECASE | re.MULTILINE,
)
"""A directive. A channel may have put its `[sender, time]` in front of the first line. Indentation
behind the one space is part of a text."""
_PLAIN_ASK = re.compile(
    r"\s*(?:\[[^\]\n]*\]\s*)?ask (?:the )?([\w-]+)[,:]? ((?:for|to|about|which|what|where|when|who|why|how|if|whether)\b.*)",
    re.IGNORECASE | re.DOTALL,
)
_TEXTS = ("say", "ask", "think", "cut")
"""The directives that may have several lines; of the others only the first counts."""

_MARK = re.compile(r"\u27e6(?:end of message|runtime)\b")
"""The gateway's own words: after what came from elsewhere, and in front of each message."""

_FROM_CHILD = re.compile(r"\u27e6announce message [0-9a-f]{16} from agent:[^:]+:subagent:")
"""The mark before a sub-agent's report, which may arrive at any moment."""

_FROM_AGENT = "\u27e6inter-session message "
"""The mark before what another agent has sent."""

_DIRECTIVES = "say: tool: ask: think: wait: fail: long: cut: then:"
_REPORT = "`Result:`"
"""The word in a request for a result: whoever gets it repeats its last words."""
_SILENCE = ("ANNOUNCE_SKIP", "REPLY_SKIP")


class RehearsalStep(msgspec.Struct):
    say: list[str] = []
    tools: list[tuple[str, str]] = []
    think: list[str] = []
    wait_s: float = 0.0
    fail: str | None = None
    words: int = 0
    cut: list[str] = []


class _Sent(msgspec.Struct):
    reply: str


class RehearsalProvider:
    name = "rehearsal"

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        await anyio.lowlevel.checkpoint()
        step = next_step(request)
        if step.wait_s:
            await anyio.sleep(step.wait_s)
        if step.fail is not None:
            raise ProviderError(step.fail or "the script says: fail")
        blocks = _blocks(request, step)
        await self._tell_all(blocks, tell)
        return AssistantMessage(
            content=blocks,
            provider=self.name,
            model=request.model,
            usage=count_usage(request, blocks),
            stop_reason=_stop_reason(step),
        )

    async def close(self) -> None:
        pass

    async def _tell_all(self, blocks: list[AssistantBlock], tell: TellPiece) -> None:
        for number, piece in enumerate(pieces_of(blocks), start=1):
            tell(piece)
            if number % PIECES_AT_ONCE == 0:
                await anyio.lowlevel.checkpoint()


def next_step(request: ModelRequest) -> RehearsalStep:
    script, played = _find_script(request)
    if played < len(script):
        return script[played]
    return _plain_ask(request) or RehearsalStep(say=[_plain_answer(request)])


def _plain_ask(request: ModelRequest) -> RehearsalStep | None:
    """The step for a person who asks in plain words for another agent to be asked; that one's
    answer is repeated."""
    last = request.turns[-1] if request.turns else None
    if not isinstance(last, UserTurn) or last.results or _is_from_agent(last):
        return None
    found = _PLAIN_ASK.match(_words(last))
    offers = any(spec.name == "sessions_send" for spec in request.tools)
    if found is None or not offers:
        return None
    step = RehearsalStep()
    _add(step, "ask", f"{found[1].lower()} {found[2]}")
    return step


def parse_script(text: str) -> list[RehearsalStep]:
    """The steps that a text asks for; none if it has no directive."""
    directives = list(_directives(text))
    steps = [RehearsalStep()] if directives else []
    for verb, argument in directives:
        if verb == "then":
            steps.append(RehearsalStep())
        else:
            _add(steps[-1], verb, argument)
    return steps


def _directives(text: str) -> Iterator[tuple[str, str]]:
    found = list(_DIRECTIVE.finditer(text))
    ends = [*(match.start() for match in found), len(text)][1:]
    for match, end in zip(found, ends, strict=True):
        verb = match[1].lower()
        if verb in _TEXTS:
            yield verb, text[match.start(2) : end].rstrip()
        else:
            yield verb, match[2].strip()


def _add(step: RehearsalStep, verb: str, argument: str) -> None:
    match verb:
        case "say":
            step.say.append(argument)
        case "tool":
            name, _, arguments = argument.partition(" ")
            step.tools.append((name, arguments))
        case "ask":
            name, _, words = argument.partition(" ")
            whom = "agentId" if name == "main" else "sessionKey"  # which would be one's own
            call = {whom: name, "message": words.strip() or name}
            step.tools.append(("sessions_send", msgspec.json.encode(call).decode()))
        case "think":
            step.think.append(argument)
        case "cut":
            step.cut.append(argument)
        case "fail":
            step.fail = argument
        case "wait":
            step.wait_s = min(_number(verb, argument), WAIT_S_MAX)
        case "long":
            step.words = min(int(_number(verb, argument)), LONG_WORDS_MAX)


def _number(verb: str, argument: str) -> float:
    if re.fullmatch(r"\d+(\.\d+)?", argument) is None:
        raise ProviderError(f"rehearsal: {verb}: takes a number, for example {verb}: 3")
    return float(argument)


def _find_script(request: ModelRequest) -> tuple[list[RehearsalStep], int]:
    """The script that is being played and how many of its steps were. Text without a directive ends
    a script, with two exceptions: text that came along with tool results (an announce may arrive in
    the middle of a run), and text that asks for the rest of an answer that was cut."""
    script, later = _latest_script(request.turns)
    played, answer = 0, ""
    for turn in later:
        if isinstance(turn, AssistantTurn):
            played += 1
            answer = "".join(block.text for block in turn.content if isinstance(block, Text))
        elif _words(turn) and not turn.results and not _was_cut(script[:played], answer):
            return [], 0
    return script, played


def _latest_script(turns: list[Turn]) -> tuple[list[RehearsalStep], list[Turn]]:
    for place in reversed(range(len(turns))):
        turn = turns[place]
        if isinstance(turn, UserTurn) and (script := _script_of(turn)):
            return script, turns[place + 1 :]
    return [], []


def _was_cut(played: list[RehearsalStep], answer: str) -> bool:
    """Whether the last answer was cut. One that was continued is stored as one and no longer equals
    its first half."""
    return bool(played) and bool(played[-1].cut) and answer == _text(played[-1])


def _script_of(turn: UserTurn) -> list[RehearsalStep]:
    return parse_script(_words(turn))


def _words(turn: UserTurn) -> str:
    """The newest of several messages in one turn: those before it were not answered, and are over.
    A report that arrived in between is not what was asked."""
    texts = [part.text for part in turn.content if isinstance(part, Text)]
    said = [text for text in texts if not _MARK.match(text)]
    asked = [
        text
        for before, text in pairwise(["", *said])
        if not _FROM_CHILD.match(before) and not _FROM_CHILD.match(text)
    ]
    return (asked or said or [""])[-1].strip()


def _runtime(turn: UserTurn) -> str:
    """The gateway's words about the newest message."""
    texts = [part.text for part in turn.content if isinstance(part, Text)]
    return next((text for text in reversed(texts) if text.startswith("\u27e6runtime")), "")


def _plain_answer(request: ModelRequest) -> str:
    last = next((t for t in reversed(request.turns) if isinstance(t, UserTurn)), UserTurn([], []))
    words = _words(last)
    if last.results and not words:
        return tr("(rehearsal)") + " " + "; ".join(_quoted_results(request, last))
    runtime = _runtime(last)
    if _REPORT in runtime and (said := _last_words(request)):
        return f"Result: {said}"
    for token in _SILENCE:
        if token in runtime:
            return token
    if _is_from_agent(last):
        return tr("I was asked: “{words}”. (rehearsal)").format(words=_shorten(words))
    return tr(
        "You said: “{words}”. This is the rehearsal model: it does not think, it plays scripts ({directives}). "
        "For a model that thinks: crossclaw onboard. To see one agent ask another: crossclaw agents add librarian, "
        "then send “ask: librarian Which atlas do we have?”"
    ).format(words=_shorten(words), directives=_DIRECTIVES)


def _is_from_agent(turn: UserTurn) -> bool:
    texts = [part.text for part in turn.content if isinstance(part, Text)]
    return any(text.startswith(_FROM_AGENT) for text in texts)


def _last_words(request: ModelRequest) -> str:
    said = [
        "".join(block.text for block in turn.content if isinstance(block, Text))
        for turn in request.turns
        if isinstance(turn, AssistantTurn)
    ]
    return said[-1].strip() if said else ""


def _quoted_results(request: ModelRequest, turn: UserTurn) -> Iterator[str]:
    names = tool_names(request.turns)
    for result in turn.results:
        text = " ".join(part.text for part in result.content if isinstance(part, Text))
        if reply := _reply_in(text):
            yield tr("the answer: {reply}").format(reply=reply)
            continue
        failed = " failed" if result.is_error else ""
        yield f"{names.get(result.tool_use_id, 'tool')}{failed}: {_shorten(text)}"


def _reply_in(result: str) -> str | None:
    """Another agent's answer in a result of `sessions_send`."""
    try:
        return msgspec.json.decode(result, type=_Sent).reply
    except msgspec.MsgspecError:
        return None


def _shorten(text: str) -> str:
    return with_ellipsis(" ".join(text.split()), QUOTE_CHARS)


def _blocks(request: ModelRequest, step: RehearsalStep) -> list[AssistantBlock]:
    blocks: list[AssistantBlock] = [Thinking("\n".join(step.think))] if step.think else []
    if text := _text(step):
        blocks.append(Text(text))
    calls = (
        ToolUse(make_call_id(request, number), name, parse_arguments(arguments))
        for number, (name, arguments) in enumerate(step.tools)
    )
    return [*blocks, *calls]


def _text(step: RehearsalStep) -> str:
    counted = [" ".join(f"word{n}" for n in range(1, step.words + 1))] if step.words else []
    return "\n".join([*step.say, *counted, *step.cut])


def _stop_reason(step: RehearsalStep) -> StopReason:
    if step.tools:
        return "tool_use"
    return "max_tokens" if step.cut else "end_turn"
