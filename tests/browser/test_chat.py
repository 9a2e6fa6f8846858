"""Chat on the page: what is said, streamed, stopped, kept, missed and caught up with."""

import json
from typing import Any

import pytest

from crossclaw.domain.errors import Stopped
from crossclaw.gateway.frames import error_body
from crossclaw.sessions.commands import COMMANDS
from tests.browser.conftest import Visit
from tests.browser.visiting import (
    LIBRARIAN,
    MAIN,
    Place,
    Visitor,
    ask_script,
    open_place,
    route,
)

pytestmark = pytest.mark.spec("N1")


def test_a_message_gets_its_reply_and_both_are_shown_once(visit: Visit, place: Place) -> None:
    key = place.make("first-words")
    visitor = visit(route("chat", key))

    visitor.see(".log .empty", has_text="Talk with Main")
    visitor.say("say: Good morning.")
    visitor.see(".message.assistant[data-seq]", has_text="Good morning.")

    assert visitor.words() == ["say: Good morning.", "Good morning."]
    assert place.client.history(key)[1].text == "Good morning."


def test_words_grow_while_they_are_written_and_can_be_stopped(visit: Visit, place: Place) -> None:
    visitor = visit(route("chat", place.make("slow")))

    visitor.say("wait: 60\nsay: never")
    visitor.see(".growing .dots")
    visitor.page.click("cc-composer .stop")

    visitor.see(".away", has_text="Stopped.")
    visitor.until("() => !document.querySelector('.ghost')")
    visitor.find("cc-composer .stop").wait_for(state="hidden")


def test_a_tool_call_is_a_quiet_line_that_unfolds(visit: Visit, place: Place) -> None:
    visitor = visit(route("chat", place.make("with-tools")))

    visitor.say(ask_script("librarian", "Where?", "say: Shelf nine.", "It is on shelf nine."))
    line = visitor.see(".tool[data-state=ok]", has_text="sessions_send")
    visitor.see(".message.assistant", has_text="It is on shelf nine.")

    assert line.locator(".out").is_visible() is False
    line.locator("summary").press("Enter")
    assert "Shelf nine." in line.locator(".out").inner_text()
    assert "librarian" in line.locator("pre").first.inner_text()


def test_words_of_others_are_text_and_never_markup(visit: Visit, place: Place) -> None:
    key = place.make("hostile")
    attack = "<img src=x onerror=alert(1)><script>document.title='owned'</script>"
    place.client.call("sessions.patch", {"key": key, "label": "<b>bold</b>"})
    place.say(key, f"say: {attack}")

    visitor = visit(route("chat", key))
    visitor.see(".message.assistant")

    assert visitor.find(".log img, .log script, .rows b").count() == 0
    assert visitor.page.title().endswith("Crossclaw")


def test_the_content_policy_refuses_html_that_does_not_come_through_the_one_door(
    visit: Visit, place: Place
) -> None:
    visitor = visit(may_complain="TrustedHTML|Trusted Type")

    refused = visitor.page.evaluate(
        "() => { try { document.body.innerHTML = '<p>'; return false } catch { return true } }"
    )

    assert refused


def test_drafts_are_kept_by_session_and_over_a_reload(visit: Visit, place: Place) -> None:
    one, two = place.make("draft-one"), place.make("draft-two")
    visitor = visit(route("chat", one))

    visitor.see(".log .empty")
    visitor.page.fill("#say", "half a thought")
    visitor.go(route("chat", two))
    visitor.until("() => document.querySelector('#say').value === ''")
    visitor.go(route("chat", one))
    visitor.page.reload()

    visitor.until("() => document.querySelector('#say')?.value === 'half a thought'")


def test_commands_are_completed_by_keyboard(visit: Visit, place: Place) -> None:
    key = place.make("commands")
    visitor = visit(route("chat", key))

    visitor.page.fill("#say", "/th")
    visitor.see("#commands [aria-selected=true]", has_text="/think")
    assert visitor.page.get_attribute("#say", "aria-activedescendant") == "command-0"
    visitor.page.press("#say", "Tab")
    visitor.page.type("#say", "high")
    visitor.page.press("#say", "Enter")
    visitor.see(".log .command", has_text="Thinking set to high.")

    assert place.ledger("SELECT thinking FROM sessions WHERE key = ?", key) == [("high",)]


def test_what_others_say_comes_in_live_and_elsewhere_is_marked_unread(
    visit: Visit, place: Place
) -> None:
    here, there = place.make("here"), place.make("there", label="Over there")
    visitor = visit(route("chat", here))
    visitor.see(".log .empty")

    place.say(here, "say: seen at once")
    visitor.see(".message.assistant", has_text="seen at once")
    place.say(there, "say: elsewhere")

    visitor.see("cc-recent a.unread", has_text="Over there")
    visitor.until("() => document.title.startsWith('(')")
    visitor.page.click("cc-recent a.unread >> text=Over there")
    visitor.see(".message.assistant", has_text="elsewhere")
    visitor.find("cc-recent a.unread", has_text="Over there").wait_for(state="detached")


def test_a_long_history_is_read_backwards_without_holes_or_doubles(
    visit: Visit, place: Place
) -> None:
    key = place.make("long")
    for number in range(110):
        place.client.call("chat.inject", {"sessionKey": key, "message": f"note {number}"})
    visitor = visit(route("chat", key))
    visitor.see(".message", has_text="note 109")
    assert visitor.find(".log > .message").count() == 60

    visitor.until(
        "() => { document.querySelector('.log').scrollTop = 0;"
        " return document.querySelector(\".message[data-seq='1']\") }"
    )

    assert visitor.words() == [f"note {number}" for number in range(110)]


def test_a_message_waits_in_line_behind_the_one_before(visit: Visit, place: Place) -> None:
    key = place.make("queue")
    visitor = visit(route("chat", key))

    visitor.say("wait: 1\nsay: first answer")
    visitor.see(".message.user[data-seq]")
    visitor.say("say: second answer")
    visitor.see(".ghost.user .foot", has_text="queued")
    visitor.see(".message.assistant[data-seq]", has_text="second answer")

    answers = [text for text in visitor.words() if text.endswith("answer") and "say:" not in text]
    assert answers == ["first answer", "second answer"]


def test_a_restart_of_the_gateway_loses_and_doubles_nothing(
    visit: Visit, chromium: Any, tmp_path: Any
) -> None:
    with open_place(tmp_path) as own:
        port = own.program.port
        visitor = visit(place=own, may_complain="WebSocket|ERR_CONNECTION")
        visitor.go(route("chat", MAIN))
        visitor.say("say: before")
        visitor.see(".message.assistant[data-seq]", has_text="before")
        own.program.kill()
        visitor.see("#line[data-state=off], #line[data-state=wait]")
        visitor.say("say: into the dark")
        visitor.see(".ghost.user", has_text="into the dark")

        with own.folder.start("gateway", "--port", str(port)):
            visitor.see(".message.assistant[data-seq]", has_text="into the dark")
            words = visitor.words()

    assert words == ["say: before", "before", "say: into the dark", "into the dark"]


def test_what_is_said_before_a_conversation_could_be_read_is_seen_and_arrives(
    visit: Visit, tmp_path: Any
) -> None:
    with open_place(tmp_path) as own:
        port = own.program.port
        visitor = visit(place=own, may_complain="WebSocket|ERR_CONNECTION")
        visitor.see("cc-recent a", has_text="The librarian")
        own.program.kill()
        visitor.see("#line[data-state=off], #line[data-state=wait]")
        visitor.page.click("cc-recent a >> text=The librarian")
        visitor.see("h2", has_text="The librarian")
        visitor.say("say: Shelf nine.")
        visitor.see(".ghost.user", has_text="Shelf nine.")

        with own.folder.start("gateway", "--port", str(port)):
            visitor.see(".message.assistant[data-seq]", has_text="Shelf nine.")
            words = visitor.words()

    assert words == ["say: Shelf nine.", "Shelf nine."]


SAYS_AT_THE_WELCOME = """async (text) => {
  const { wire } = await import(new URL('static/wire.js', document.baseURI));
  const say = () => document.querySelector('cc-composer')
    .dispatchEvent(new CustomEvent('say', { detail: { text, pictures: [] } }));
  wire.addEventListener('open', say, { once: true });
}"""


def test_what_could_not_be_sent_goes_before_what_was_said_later(
    visit: Visit, tmp_path: Any
) -> None:
    with open_place(tmp_path) as own:
        port = own.program.port
        visitor = visit(place=own, may_complain="WebSocket|ERR_CONNECTION")
        visitor.go(route("chat", MAIN))
        visitor.see(".log .empty")
        own.program.kill()
        visitor.see("#line[data-state=off], #line[data-state=wait]")
        visitor.say("say: one")
        visitor.say("say: two")
        visitor.see(".ghost.user .foot >> nth=1", has_text="waiting for the connection")
        visitor.page.evaluate(SAYS_AT_THE_WELCOME, "say: three")

        with own.folder.start("gateway", "--port", str(port)):
            visitor.see(".message.assistant[data-seq]", has_text="three")
            words = [text for text in visitor.words() if text.startswith("say:")]

    assert words == ["say: one", "say: two", "say: three"]


class ClosingLine:
    """Between page and gateway: the first message is refused as by a gateway that closes, and the
    welcome on the line after that is held back until it is let through."""

    def __init__(self, visitor: Visitor) -> None:
        self.asked: list[list[str]] = []
        self.held: list[tuple[Any, str]] = []
        self.holding = True
        visitor.page.route_web_socket("**", self._opened)

    def _opened(self, line: Any) -> None:
        number, gateway = len(self.asked), line.connect_to_server()
        self.asked.append([])
        line.on_message(lambda text: self._from_page(number, line, gateway, text))
        gateway.on_message(lambda text: self._from_gateway(number, line, text))

    def _from_page(self, number: int, line: Any, gateway: Any, text: str) -> None:
        frame = json.loads(text)
        self.asked[number].append(frame["method"])
        if number or frame["method"] != "chat.send":
            gateway.send(text)
            return
        told = {"type": "event", "event": "shutdown", "payload": {"reason": "reload"}}
        error = error_body(Stopped("the gateway is closing; ask again after its restart"), 4)
        refused = {"type": "res", "id": frame["id"], "ok": False, "error": error}
        for each in (told, refused):
            line.send(json.dumps(each))
        line.close(code=1012, reason="reload")

    def _from_gateway(self, number: int, line: Any, text: str) -> None:
        if number and self.holding:
            self.held.append((line, text))
        else:
            line.send(text)

    def let_through(self) -> None:
        self.holding = False
        for line, text in self.held:
            line.send(text)


def test_a_gateway_that_closes_is_no_complaint_and_its_next_line_begins_with_the_welcome(
    visit: Visit, place: Place
) -> None:
    key = place.make("closing")
    visitor = visit()
    line = ClosingLine(visitor)
    visitor.page.reload()
    visitor.see("#line[data-state=on]")
    visitor.go(route("chat", key))
    visitor.see(".log .empty")

    visitor.say("say: one")
    visitor.see(".ghost.user .foot", has_text="waiting for the connection")
    while not line.held:
        visitor.until("() => true")
    visitor.say("say: two")
    visitor.see(".ghost.user .foot >> nth=1", has_text="waiting for the connection")
    assert line.asked[1] == []
    assert visitor.find(".toast").count() == 0
    line.let_through()

    visitor.see(".message.assistant[data-seq]", has_text="two")
    words = [text for text in visitor.words() if text.startswith("say:")]
    assert words == ["say: one", "say: two"]
    assert line.asked[1][0] == "connect"
    assert visitor.find(".toast").count() == 0


def test_the_door_says_why_a_token_is_refused_and_takes_the_right_one(
    chromium: Any, place: Place
) -> None:
    visitor = Visitor(chromium, place)
    visitor.go("")
    visitor.see("#door")
    visitor.page.fill("#token", "not-the-token-but-long-enough-to-try")
    visitor.page.press("#token", "Enter")
    visitor.see("#door-why.problem", has_text="unauthorized")
    visitor.page.fill("#token", place.token)
    visitor.page.press("#token", "Enter")
    visitor.see("#line[data-state=on]")

    assert place.token not in visitor.page.url
    visitor.page.click("#forget")
    visitor.see("#door")
    visitor.leave()


def test_the_link_with_the_token_leaves_it_in_no_address(visit: Visit, place: Place) -> None:
    visitor = visit()

    assert place.token not in visitor.page.url
    kept = visitor.page.evaluate("() => JSON.stringify(localStorage)")
    assert place.token not in kept


def test_a_message_from_an_agent_says_from_whom_and_leads_to_the_exchange(
    visit: Visit, place: Place
) -> None:
    place.say(MAIN, ask_script("librarian", "Which shelf?", "say: The ninth.", "Thank you."))
    place.settle()
    visitor = visit(route("chat", LIBRARIAN))

    message = visitor.see(".message.other", has_text="Which shelf?")
    assert "Main" in message.locator(".head").inner_text()
    message.locator("a.via").click()
    visitor.see(".sequence .step", has_text="Which shelf?")


def test_every_command_of_the_gateway_is_offered(visit: Visit, place: Place) -> None:
    visitor = visit(route("chat", place.make("all-commands")))

    visitor.page.fill("#say", "/")
    visitor.see("#commands li", has_text="/activation")

    offered = set(visitor.find("#commands li b").all_inner_texts())
    assert offered >= {f"/{name}" for name in COMMANDS}


def test_markdown_is_rendered_by_the_gateway_and_carries_no_script(
    visit: Visit, place: Place
) -> None:
    key = place.make("markdown")
    place.say(key, "say: **bold** and `code` <script>alert(1)</script> [x](javascript:alert(1))")

    visitor = visit(route("chat", key))
    visitor.see(".message.assistant .words strong", has_text="bold")

    assert visitor.find(".message.assistant .words code").inner_text() == "code"
    assert visitor.find(".log script, .log a[href^='javascript']").count() == 0


def test_loads_that_overlap_show_every_message_once(visit: Visit, place: Place) -> None:
    key = place.make("overlapping")
    place.say(key, "say: one")
    visitor = visit(route("chat", key))
    visitor.see(".message.assistant[data-seq]", has_text="one")

    visitor.page.evaluate(
        "() => { const { reading } = document.querySelector('cc-chat'); reading.load(); reading.load(); reading.again() }"
    )
    place.say(key, "say: two")
    visitor.see(".message.assistant[data-seq]", has_text="two")

    assert visitor.words() == ["say: one", "one", "say: two", "two"]


def test_line_breaks_are_kept_in_messages_and_in_answers_of_commands(
    visit: Visit, place: Place
) -> None:
    visitor = visit(route("chat", place.make("lines")))
    visitor.say("wait: 0\nsay: ok")
    mine = visitor.see(".message.user[data-seq] .words:not(.plain)")
    assert mine.inner_text().splitlines() == ["wait: 0", "say: ok"]

    visitor.say("/status")
    answer = visitor.see(".log .command .words:not(.plain)").inner_text()
    assert len(answer.splitlines()) > 3


def test_a_line_break_that_markdown_makes_is_one_line_break(visit: Visit, place: Place) -> None:
    key = place.make("hard-breaks")
    place.client.call("chat.inject", {"sessionKey": key, "message": "one  \ntwo\n\n- a\n- b"})
    visitor = visit(route("chat", key))

    words = visitor.see(".message .words:not(.plain)", has_text="two")
    assert words.locator("p").first.inner_text().splitlines() == ["one", "two"]
    assert words.locator("li").all_inner_texts() == ["a", "b"]


def test_a_session_of_an_agent_that_is_not_there_is_said_once_and_has_no_field(
    visit: Visit,
) -> None:
    visitor = visit(route("chat", "agent:nobody:main"))

    visitor.see(".log .empty", has_text="nobody")
    visitor.find("cc-composer").wait_for(state="hidden")
    assert visitor.find(".loading, .toast").count() == 0
    visitor.go(route("chat", MAIN))
    visitor.see("cc-composer")


def test_an_address_that_leads_nowhere_is_said(visit: Visit) -> None:
    visitor = visit()
    for wrong in ("#/nonsense", "#/chat/%E0%A4%A"):
        visitor.page.goto(visitor.place.url + wrong)
        visitor.see("main .empty", has_text="No such page")
    visitor.page.click("text=To the chat")
    visitor.see("main > cc-chat")


def test_what_cannot_be_attached_is_said_and_covers_no_button(visit: Visit, place: Place) -> None:
    visitor = visit(route("chat", place.make("attach")))
    photo = {"name": "sea.heic", "mimeType": "image/heic", "buffer": b"a photo"}

    visitor.page.set_input_files("cc-composer input[type=file]", [photo])
    visitor.page.set_input_files("cc-composer input[type=file]", [photo])

    visitor.see(".toast.bad", has_text="Attach it as JPEG or PNG.")
    assert visitor.find(".toast").count() == 1
    sender = visitor.see("cc-composer .go").bounding_box()
    toast = visitor.see(".toast").bounding_box()
    assert toast["y"] + toast["height"] < sender["y"]


def test_the_list_shows_what_was_said_last_and_meanwhile_who_is_at_work(
    visit: Visit, place: Place
) -> None:
    key = place.make("last-words", label="Ideas for the garden")
    visitor = visit(route("chat", MAIN))
    row = visitor.see("cc-recent a", has_text="Ideas for the garden").locator(".more")
    row.filter(has_text="nothing said yet").wait_for()

    place.say(key, "say: ## Then\nsay: **Lavender**, and `mint` in a pot.")
    row.filter(has_text="Then Lavender, and mint in a pot.").wait_for()
    place.client.submit("wait: 600", key, key="gardening")
    row.locator(".state[data-state=running]").wait_for()
    place.client.call("chat.abort", {"sessionKey": key})
    place.settle()


def test_what_was_answered_with_silence_is_not_the_last_word(visit: Visit, place: Place) -> None:
    place.say(MAIN, ask_script("librarian", "Which shelf?", "say: The ninth.", "Thank you."))
    place.settle()
    visitor = visit(route("chat", MAIN))

    visitor.see("cc-recent a", has_text="The librarian").locator(
        ".more", has_text="The ninth."
    ).wait_for()


def test_what_waits_in_line_stands_behind_what_is_being_answered(
    visit: Visit, place: Place
) -> None:
    key = place.make("in-line")
    visitor = visit(route("chat", key))
    visitor.say("wait: 600")
    visitor.see(".message.user[data-seq]")
    visitor.see(".growing")
    visitor.say("say: later")
    visitor.see(".ghost.user .foot", has_text="queued")

    order = "() => [...document.querySelectorAll('.log > .ghost')].map(i => i.classList[1])"
    assert visitor.page.evaluate(order) == ["assistant", "user"]
    assert visitor.find(".ghost.user .foot").is_visible()
    place.client.call("chat.abort", {"sessionKey": key})
    visitor.until("() => !document.querySelector('.log > .ghost')")


def test_a_reply_is_read_aloud_once_when_it_is_whole(visit: Visit, place: Place) -> None:
    visitor = visit(route("chat", place.make("aloud")))
    visitor.see(".log .empty")
    visitor.page.evaluate(
        "() => { globalThis.spoken = [];"
        " new MutationObserver(() => spoken.push(document.querySelector('.talk > .sr').textContent))"
        ".observe(document.querySelector('.talk > .sr'), { childList: true }) }"
    )

    visitor.say("long: 200")
    visitor.see(".message.assistant[data-seq]", has_text="word200")
    visitor.until("() => spoken.length")

    assert visitor.find(".log").get_attribute("aria-live") == "off"
    (told,) = visitor.page.evaluate("() => spoken")
    assert told.startswith("Main: word1 word2")


def test_paragraphs_run_in_the_direction_of_their_script(visit: Visit, place: Place) -> None:
    key = place.make("directions")
    words = "مرحبا بالعالم with English\n\nThen English."
    place.client.call("chat.inject", {"sessionKey": key, "message": words})
    visitor = visit(route("chat", key))
    visitor.see(".message .words:not(.plain) p >> nth=1")

    gaps = visitor.page.evaluate(
        "() => [...document.querySelectorAll('.message .words p')].map(p => {"
        " const range = document.createRange(); range.selectNodeContents(p);"
        " const text = range.getBoundingClientRect(), box = p.getBoundingClientRect();"
        " return [text.left - box.left, box.right - text.right].map(Math.round) })"
    )
    (right_to_left, left_to_right) = gaps
    assert right_to_left[1] == 0 < right_to_left[0]
    assert left_to_right[0] == 0 < left_to_right[1]


def test_a_message_that_policy_refuses_comes_back_with_what_would_allow_it(
    visit: Visit, place: Place
) -> None:
    visitor = visit(route("chat", place.make("refused")))
    visitor.say("/send off")
    visitor.see(".log .command")

    visitor.say("say: hello")
    visitor.see(".toast.bad", has_text="/send on")
    visitor.until("() => document.querySelector('#say').value === 'say: hello'")
    visitor.until("() => !document.querySelector('.log > .ghost')")

    visitor.page.fill("#say", "")
    visitor.say("/send on")
    visitor.see(".log .command >> nth=1")
    visitor.say("say: hello again")
    visitor.see(".message.assistant", has_text="hello again")


def test_a_reply_of_ten_thousand_lines_is_shown_whole(visit: Visit, place: Place) -> None:
    key = place.make("ten-thousand")
    lines = [f"line {number}" for number in range(10_000)]
    place.client.call("chat.inject", {"sessionKey": key, "message": "\n".join(lines)})
    visitor = visit(route("chat", key))

    visitor.see(".message .words", has_text="line 9999")
    visitor.say("say: still here")
    visitor.see(".message.assistant[data-seq]", has_text="still here")
    shown = visitor.find(".message .words").first.evaluate("each => each.textContent")
    assert shown.strip().splitlines() == lines


def test_a_picture_that_is_too_large_is_left_out_with_what_would_do(
    visit: Visit, place: Place
) -> None:
    visitor = visit(route("chat", place.make("too-large")))
    picture = {"name": "sea.png", "mimeType": "image/png", "buffer": b"x" * 17_000_000}

    visitor.page.set_input_files("cc-composer input[type=file]", [picture])

    visitor.see(".toast.bad", has_text="A smaller copy of it can be attached.")
    assert visitor.find("cc-composer figure").count() == 0
