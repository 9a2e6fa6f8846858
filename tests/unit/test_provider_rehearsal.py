"""The rehearsal model plays what a message says, and says what it is when it says nothing."""

import anyio
import pytest

from crossclaw.domain.errors import ProviderError
from crossclaw.domain.messages import AssistantMessage, Text, Thinking, ToolUse
from crossclaw.providers.contract import (
    AssistantTurn,
    ModelPiece,
    ModelRequest,
    TextPiece,
    ThinkingPiece,
    ToolPiece,
    ToolReturn,
    ToolSpec,
    Turn,
    UserTurn,
)
from crossclaw.providers.rehearsal import RehearsalProvider


def user(*texts: str) -> UserTurn:
    return UserTurn([], [Text(text) for text in texts])


def results(answer: AssistantMessage, *texts: str, words: str = "") -> UserTurn:
    returned = [
        ToolReturn(call.id, [Text(text)])
        for call, text in zip(answer.tool_calls, texts, strict=True)
    ]
    return UserTurn(returned, [Text(words)] if words else [])


def said(answer: AssistantMessage) -> AssistantTurn:
    return AssistantTurn(answer.blocks)


async def ask(
    *turns: Turn, system: str = "", pieces: list[ModelPiece] | None = None
) -> AssistantMessage:
    tell = pieces.append if pieces is not None else lambda _piece: None
    request = ModelRequest(model="rehearsal", system=system, turns=list(turns))
    return await RehearsalProvider().complete(request, tell)


async def test_plain_words_get_an_answer_that_says_what_it_is_and_how_to_get_another() -> None:
    answer = await ask(user("good morning, gateway"))
    assert "good morning, gateway" in answer.text
    assert "rehearsal model" in answer.text
    assert "say:" in answer.text
    assert "crossclaw onboard" in answer.text
    assert "ask: librarian" in answer.text
    assert answer.stop_reason == "end_turn"
    assert (answer.provider, answer.model) == ("rehearsal", "rehearsal")


async def test_say_lines_are_the_whole_answer() -> None:
    answer = await ask(user("please\nsay: one\nSay: two"))
    assert answer.text == "one\ntwo"


async def test_a_text_keeps_its_indentation_and_the_lines_below_it_until_the_next_directive() -> (
    None
):
    script = "think: first\n  then more\nsay: def f():\n    return 1\n\n# end\n\nsay:   deeper\nwait: 0\nlost"
    answer = await ask(user(script))
    assert answer.text == "def f():\n    return 1\n\n# end\n  deeper"
    assert answer.blocks[0] == Thinking("first\n  then more")


async def test_a_channel_prefix_does_not_hide_the_first_line() -> None:
    assert (await ask(user("[Ada 10:31] say: hi"))).text == "hi"


async def test_pieces_come_in_order_and_join_to_the_message() -> None:
    pieces: list[ModelPiece] = []
    answer = await ask(user("think: hm  well\nsay: one  two\nsay: three\ntool: t"), pieces=pieces)
    assert answer.blocks[0] == Thinking("hm  well")
    thoughts = [piece for piece in pieces if isinstance(piece, ThinkingPiece)]
    words = [piece for piece in pieces if isinstance(piece, TextPiece)]
    assert "".join(piece.thinking for piece in thoughts) == "hm  well"
    assert "".join(piece.text for piece in words) == answer.text == "one  two\nthree"
    assert pieces == [*thoughts, *words, ToolPiece(answer.tool_calls[0].id, "t")]
    assert len(words) == 3


async def test_several_tool_lines_are_several_calls_of_one_message() -> None:
    answer = await ask(user('tool: read {"path": "a"}\ntool: exec'))
    assert [(call.name, call.input) for call in answer.tool_calls] == [
        ("read", {"path": "a"}),
        ("exec", {}),
    ]
    assert len({call.id for call in answer.tool_calls}) == 2
    assert answer.stop_reason == "tool_use"


async def test_arguments_that_are_no_json_reach_the_loop_as_raw_text() -> None:
    answer = await ask(user("tool: read {path"))
    assert answer.tool_calls[0].input == {"_raw": "{path"}


async def test_without_a_next_step_results_are_quoted() -> None:
    start = user("tool: read\ntool: list")
    call = await ask(start)
    answer = await ask(start, said(call), results(call, "the file", "a b c"))
    assert answer.text == "(rehearsal) read: the file; list: a b c"


async def test_ask_sends_to_another_agent_and_its_reply_is_repeated() -> None:
    start = user("ask: librarian Which atlas\ndo we have?")
    call = await ask(start)
    assert [(each.name, each.input) for each in call.tool_calls] == [
        ("sessions_send", {"sessionKey": "librarian", "message": "Which atlas\ndo we have?"})
    ]
    reply = '{"runId": "r", "status": "ok", "reply": "the big one"}'
    assert (await ask(start, said(call), results(call, reply))).text == (
        "(rehearsal) the answer: the big one"
    )
    failed = await ask(start, said(call), results(call, '{"status": "forbidden"}'))
    assert failed.text == '(rehearsal) sessions_send: {"status": "forbidden"}'
    asked = (
        "\u27e6inter-session message 0123456789abcdef from agent:main:main; from a colleague\u27e7"
    )
    assert (await ask(user(asked, "Which atlas?", "\u27e6end of message\u27e7"))).text == (
        "I was asked: “Which atlas?”. (rehearsal)"
    )


async def test_steps_follow_each_other_after_their_results() -> None:
    turns: list[Turn] = [user('tool: a {"n": 1}\nthen:\ntool: b\nthen:\nsay: done')]
    names = []
    while (answer := await ask(*turns)).tool_calls:
        names.append(answer.tool_calls[0].name)
        turns += [said(answer), results(answer, "ok")]
    assert names == ["a", "b"]
    assert answer.text == "done"


async def test_the_same_conversation_gets_the_same_answer_and_a_later_call_another_id() -> None:
    start = user("tool: a\nthen:\ntool: a")
    first = await ask(start)
    assert await ask(start) == first
    second = await ask(start, said(first), results(first, "ok"))
    assert second.tool_calls[0].id != first.tool_calls[0].id


async def test_words_that_arrive_with_results_do_not_end_the_script() -> None:
    start = user("tool: a\nthen:\nsay: done")
    call = await ask(start)
    answer = await ask(start, said(call), results(call, "ok", words="a child has finished"))
    assert answer.text == "done"


async def test_a_new_message_ends_the_script() -> None:
    start = user("tool: a\nthen:\nsay: done")
    call = await ask(start)
    answer = await ask(
        start, said(call), results(call, "ok"), AssistantTurn([Text("x")]), user("hi")
    )
    assert "You said: “hi”" in answer.text


async def test_of_two_waiting_messages_the_last_is_played() -> None:
    assert (await ask(user("say: one", "say: two"))).text == "two"


async def test_a_cut_answer_is_continued_by_the_next_step() -> None:
    start = user("cut: first half\nthen:\nsay: second half")
    cut = await ask(start)
    assert (cut.text, cut.stop_reason) == ("first half", "max_tokens")
    rest = await ask(start, said(cut), user("Go on where you stopped."))
    assert (rest.text, rest.stop_reason) == ("second half", "end_turn")
    joined = AssistantTurn([Text(cut.text + rest.text)])
    assert "You said: “thanks”" in (await ask(start, joined, user("thanks"))).text


async def test_fail_raises_with_its_text() -> None:
    with pytest.raises(ProviderError, match="the moon is full"):
        await ask(user("fail: the moon is full"))


async def test_a_number_that_is_none_is_told() -> None:
    with pytest.raises(ProviderError, match="wait: takes a number"):
        await ask(user("wait: soon"))


async def test_wait_sleeps_and_can_be_cancelled() -> None:
    began = anyio.current_time()
    assert (await ask(user("wait: 60\nsay: late"))).text == "late"
    assert anyio.current_time() - began >= 60
    with anyio.move_on_after(1) as scope:
        await ask(user("wait: 60"))
    assert scope.cancelled_caught


async def test_long_streams_so_many_words_and_can_be_cancelled_between_them() -> None:
    pieces: list[ModelPiece] = []
    answer = await ask(user("long: 100"), pieces=pieces)
    assert len(pieces) == len(answer.text.split()) == 100
    with anyio.CancelScope() as scope:

        def stop(_piece: ModelPiece) -> None:
            scope.cancel()

        request = ModelRequest(model="rehearsal", system="", turns=[user("long: 100000")])
        await RehearsalProvider().complete(request, stop)
    assert scope.cancelled_caught


@pytest.mark.parametrize("token", ["REPLY_SKIP", "ANNOUNCE_SKIP"])
async def test_in_the_steps_between_agents_it_is_silent_unless_told_otherwise(token: str) -> None:
    runtime = f"\u27e6runtime\nTo stay silent answer exactly {token}.\u27e7"
    assert (await ask(user(runtime, "the other side said hello"))).text == token
    assert (await ask(user(runtime, "say: I speak"))).text == "I speak"


async def test_usage_counts_words() -> None:
    answer = await ask(user("say: one two"), system="you are a gateway")
    assert answer.usage is not None
    assert (answer.usage.input, answer.usage.output) == (4 + 3, 2)


async def test_results_of_a_run_that_another_model_began_are_quoted() -> None:
    call = AssistantTurn([ToolUse("c1", "read", {})])
    answer = await ask(user("read it"), call, UserTurn([ToolReturn("c1", [Text("no")], True)], []))
    assert answer.text == "(rehearsal) read failed: no"


async def test_a_report_that_falls_into_a_script_does_not_stop_it() -> None:
    """A run that goes on after a crash may find it behind the message that it answers."""
    report = (
        "\u27e6announce message 0123456789abcdef from agent:main:subagent:7 through sessions_spawn; …\u27e7",
        "Status: success\nResult: 42",
        "\u27e6end of message 0123456789abcdef\u27e7",
    )

    assert (await ask(user("say: one\nthen:\nsay: two", *report))).text == "one"
    assert "42" in (await ask(user(*report))).text
    assert (await ask(user(*report, "say: later"))).text == "later"


@pytest.mark.parametrize(
    ("words", "agent", "message"),
    [
        ("Ask the librarian for the atlas", "librarian", "for the atlas"),
        ("ask harbour: when is high water?", "harbour", "when is high water?"),
    ],
)
async def test_asking_for_another_agent_in_plain_words_asks_it(
    words: str, agent: str, message: str
) -> None:
    tools = [ToolSpec("sessions_send", "", {})]
    request = ModelRequest(model="rehearsal", system="", turns=[user(words)], tools=tools)
    answer = await RehearsalProvider().complete(request, lambda _piece: None)
    (call,) = answer.tool_calls

    assert (call.name, call.input) == ("sessions_send", {"sessionKey": agent, "message": message})
    bare = await ask(user(words))
    assert bare.tool_calls == [], "not without the tool"
    plain = await ask(user("Ask me anything"))
    assert plain.tool_calls == []
