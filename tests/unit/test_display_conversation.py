"""Tool calls as progress, results for people, blocks and continued replies as one."""

import io
from typing import Any

import pytest
from rich.console import Console

from crossclaw.cli.past import draw, plain_text
from crossclaw.display.conversation import (
    Silence,
    ToolLine,
    Trouble,
    Words,
    conversation,
    progress_line,
)
from crossclaw.display.html import to_html
from crossclaw.display.results import fold, result_markdown

CALL = {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a.md"}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def message(role: str, *content: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": role, "content": list(content), **more}


STORY = [
    message("user", text("What is in a.md?"), timestamp=0),
    message("assistant", text("Let me "), text("look."), CALL, stopReason="toolUse"),
    message("toolResult", text('{"lines": 3, "ok": true}'), toolCallId="c1", toolName="read"),
    message("assistant", text("It says **on"), stopReason="length"),
    message("assistant", text("e thing**."), stopReason="stop"),
]


@pytest.mark.spec("M8")
def test_blocks_of_one_message_and_its_calls_are_one_turn_of_the_page() -> None:
    asked, answered = conversation(STORY)
    assert asked.parts == (Words("What is in a.md?"),)
    assert answered.parts == (
        Words("Let me look."),
        ToolLine("→ read path: a.md"),
        Words("It says **one thing**."),
    )


@pytest.mark.spec("M7", "M8")
def test_a_reply_that_was_continued_is_shown_as_one() -> None:
    cut = message("assistant", text("one "), stop_reason="max_tokens", stopReason="max_tokens")
    (said,) = conversation([cut, cut, message("assistant", text("two"))])
    assert said.parts == (Words("one one two"),)


def test_two_replies_that_are_none_of_each_others_continuation_stay_two() -> None:
    reply = message("assistant", text("done"), stopReason="stop")
    (said,) = conversation([reply, reply])
    assert said.parts == (Words("done"), Words("done"))


@pytest.mark.spec("M8")
def test_a_result_stands_with_its_call_and_a_failure_is_told() -> None:
    failed = [STORY[1], {**STORY[2], "isError": True, "content": "no such file"}]
    (said,) = conversation(failed, results=True)
    assert said.parts[1] == ToolLine("→ read path: a.md — failed", "```\nno such file\n```")


def test_both_spellings_of_a_transcript_are_understood() -> None:
    use = {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a.md"}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "hi", "is_error": True}
    (said, _) = conversation([message("assistant", use), message("user", result, text("and?"))])
    assert said.parts == (ToolLine("→ read path: a.md — failed"),)


def test_why_a_reply_ended_early_is_told() -> None:
    (said,) = conversation([message("assistant", errorMessage="no credit", stopReason="error")])
    assert said.parts == (Trouble("failed: no credit"),)


def test_hostile_and_odd_messages_are_survived() -> None:
    odd: list[Any] = [{}, {"role": "assistant", "content": [None, 1, {"type": "text"}]}]
    assert conversation(odd) == []
    assert progress_line("x", {"a": [1]}) == "→ x a: [1]"


def test_the_past_is_plain_in_a_pipe_and_drawn_on_a_terminal() -> None:
    said = conversation(STORY, results=True)
    plain = "\n\n".join(map(plain_text, said))
    assert "It says **one thing**." in plain
    assert "→ read path: a.md\n  lines  3\n  ok     yes" in plain
    console = Console(file=io.StringIO(), width=80, highlight=False)
    draw(said, console)
    assert isinstance(console.file, io.StringIO)
    assert "It says one thing." in console.file.getvalue()


def test_a_terminal_is_not_steered_by_what_was_said() -> None:
    said = conversation([message("assistant", text("a\x1b[2Jb"), {**CALL, "name": "\x1b]0;x\x07"})])
    assert "\x1b" not in plain_text(said[0])
    console = Console(file=io.StringIO(), width=80, highlight=False)
    draw(said, console)
    assert isinstance(console.file, io.StringIO)
    assert "\x1b" not in console.file.getvalue()


# Results


@pytest.mark.spec("M8")
def test_rows_become_a_table() -> None:
    shown = result_markdown([{"name": "a|b", "size": 1}, {"name": "<c>", "new": True}])
    assert shown.splitlines()[0] == "| name | size | new |"
    html = to_html(shown)
    assert "<td>a|b</td>" in html
    assert "<td>&lt;c&gt;</td>" in html
    assert "<td>yes</td>" in html


def test_rows_inside_an_answer_follow_its_other_fields() -> None:
    shown = result_markdown('{"count": 1, "sessions": [{"key": "main", "kind": "main"}]}')
    assert "count  1" in shown
    assert "sessions:\n\n| key | kind |" in shown


def test_deep_json_gets_line_breaks() -> None:
    assert result_markdown({"a": {"b": [1, 2]}}).startswith('```json\n{\n  "a": {\n')


def test_what_only_looks_like_json_is_text() -> None:
    assert result_markdown("[not json") == "```\n[not json\n```"
    assert result_markdown("[" * 100_000).startswith("```\n[[[")


@pytest.mark.spec("M8")
def test_long_output_is_folded_to_its_beginning_and_its_end() -> None:
    folded = fold("\n".join(f"line {n}" for n in range(1, 1001)), 20).split("\n")
    assert (folded[0], folded[-1]) == ("line 1", "line 1000")
    assert "… 980 more lines …" in folded
    assert len(folded) == 21
    assert len(fold("x" * 1_000_000)) < 1000


def test_a_long_table_is_folded_too() -> None:
    assert "… 976 more rows" in result_markdown([{"n": n} for n in range(1000)])


def test_a_result_cannot_leave_its_fence() -> None:
    html = to_html(result_markdown("```\n# not a title\n<script>x</script>"))
    assert "<h1>" not in html
    assert html.startswith("<pre><code>```")


def test_pictures_and_empty_results() -> None:
    picture = {"type": "image", "source": {"type": "base64", "data": "…"}}
    assert "(a picture)" in result_markdown([text("look"), picture])
    assert result_markdown("") == ""
    assert result_markdown(None) == "```json\nnull\n```"
    assert result_markdown([]) == "```json\n[]\n```"


@pytest.mark.parametrize(
    ("provenance", "who"),
    [
        (None, "user"),
        ({"kind": "person", "sourceChannel": "webchat"}, "user"),
        ({"kind": "person", "sender": "assistant"}, "user (assistant)"),
        ({"kind": "inter_session", "sourceSession": "agent:main:desk"}, "agent:main:desk"),
        ({"kind": "announce", "sourceSession": "agent:main:subagent:1"}, "agent:main:subagent:1 (report)"),
        ({"kind": "cron", "sender": "morning\nround"}, "cron (morning round)"),
        ({"kind": "hook", "sender": "Hook"}, "hook"),
        ({"kind": "node", "sender": "phone"}, "node (phone)"),
        ({"kind": "system"}, "system"),
    ],
)  # fmt: skip
def test_it_is_told_who_spoke(provenance: Any, who: str) -> None:
    more = {"provenance": provenance} if provenance else {}

    asked, answered = conversation([message("user", text("Hi"), **more), STORY[-1]])

    assert (asked.who, answered.who) == (who, "assistant")


@pytest.mark.parametrize("token", ["REPLY_SKIP", "ANNOUNCE_SKIP", "NO_REPLY", " HEARTBEAT_OK\n"])
def test_a_reply_that_is_only_a_control_token_is_silence(token: str) -> None:
    (said,) = conversation([message("assistant", text(token))])

    assert said.parts == (Silence(),)
    assert plain_text(said) == "assistant\n(said nothing)"
    console = Console(file=io.StringIO(), width=80)
    draw([said], console)
    assert "(said nothing)" in console.file.getvalue()  # type: ignore[attr-defined]


def test_a_control_token_among_other_words_or_of_a_person_is_words() -> None:
    quoted = conversation(
        [message("user", text("NO_REPLY")), message("assistant", text("NO_REPLY?"))]
    )

    assert [said.parts for said in quoted] == [(Words("NO_REPLY"),), (Words("NO_REPLY?"),)]
