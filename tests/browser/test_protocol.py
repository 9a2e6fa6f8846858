"""What agents say to each other by rule is one quiet line in a conversation, and unfolds."""

import json

from tests.browser.conftest import Visit
from tests.browser.visiting import LIBRARIAN, MAIN, Place, ask_script, route

LINE = ".log > .protocol"

# Entries as the gateway has them, read by the page's own transcript: an announce with words, a person in between,
# an exchange of somebody else.
DRAWN = """async () => {
  const { Transcript } = await import(new URL('static/transcript.js', document.baseURI));
  const log = document.createElement('ol');
  const transcript = new Transcript(log);
  transcript.begin('agent:librarian:main');
  const exchange = (id, announce) => ({ id, kind: 'send', requester: 'agent:main:main', state: 'over',
    target: 'agent:librarian:main', turn: 2, announce });
  transcript.protocol.learn([exchange('x', 'delivered'), exchange('y', 'no address')], log);
  const asked = { kind: 'inter_session', sourceSessionKey: 'agent:main:main' };
  let seq = 0;
  const add = (runKind, exchange, role, text, provenance) => transcript.add({ seq: ++seq, at: 1e12, type: 'message',
    runId: runKind && `${exchange}-${runKind}`, runKind, exchange,
    message: { role, content: text, provenance, stopReason: 'stop' } });
  add('send', 'x', 'user', 'Which shelf?', asked);
  add('send', 'x', 'assistant', 'The ninth.');
  add('round', 'x', 'user', 'Sure?', asked);
  add(null, null, 'user', 'Hello there');
  add('round', 'x', 'assistant', 'REPLY_SKIP');
  add('announce', 'x', 'user', 'this is your announce step', asked);
  add('announce', 'x', 'assistant', 'Somebody asked for the ninth shelf.');
  add('announce', 'y', 'user', 'this is your announce step', asked);
  add('announce', 'y', 'assistant', 'Nobody hears this.');
  transcript.add({ seq: ++seq, at: 1e12, type: 'note', note: { about: 'announce', reason: 'the session has no address' } });
  const shown = () => [...log.children].filter(each => !each.matches('.day')).map(each =>
    each.matches('.protocol') ? each.querySelector('summary').textContent + ' ' + each.querySelectorAll('ol > li').length
      : (each.querySelector('.body') || each).textContent);
  const all = shown();
  transcript.trim(5);
  return [all, shown()];
}"""


def test_rounds_and_announce_are_one_quiet_line_that_unfolds(visit: Visit, place: Place) -> None:
    key = place.make("curious")
    place.say(key, ask_script("librarian", "Which shelf?", "say: The ninth.", "Thank you."))
    place.settle()
    visitor = visit(route("chat", LIBRARIAN))

    line = visitor.see(LINE)
    assert line.locator("summary").inner_text() == (
        "asked by Main · curious · 1 round · nothing announced"
    )
    shown = " ".join(visitor.words())
    assert "The ninth." in shown
    assert "your announce step" not in shown
    line.locator("summary").click()
    line.get_by_text("this is your announce step").wait_for()
    line.get_by_text("asked what its own chat should hear").wait_for()
    line.get_by_text("The whole exchange").click()
    visitor.see(".sequence .step", has_text="Which shelf?")
    visitor.go(route("chat", key))
    mine = visitor.see(LINE, has_text="asked The librarian · 1 round · nothing announced")
    assert "Thank you." in visitor.words()[-1]
    assert mine.locator("details").get_attribute("open") is None
    (seq,) = place.ledger(
        "SELECT max(seq) FROM entries e JOIN sessions s USING (session_id) WHERE s.key = ?", key
    )[0]
    visitor.go(f"{route('chat', key)}?seq={seq}")
    visitor.see(f"{LINE} details[open] .pointed", has_text="REPLY_SKIP")


def test_the_line_says_how_far_it_is_while_it_happens(visit: Visit, place: Place) -> None:
    key = place.make("waiting-for-a-round")
    visitor = visit(route("chat", key))
    visitor.see(".log .empty")
    ask = {"agentId": "librarian", "message": "say: wait: 600", "timeoutSeconds": 600}
    visitor.say(f"tool: sessions_send {json.dumps(ask)}\nthen:\nsay: Heard.")

    visitor.see(LINE, has_text="asked The librarian · 1 round · under way")
    visitor.until("() => !document.querySelector('.log > .ghost')")
    place.client.call("chat.abort", {"sessionKey": key})
    visitor.see(LINE, has_text="asked The librarian · 1 round · stopped")
    assert visitor.words()[-1] == "Heard."


def test_a_report_is_a_line_with_its_beginning_and_open_where_nobody_answers_it(
    visit: Visit, place: Place
) -> None:
    place.say(MAIN, 'tool: sessions_spawn {"task": "say: forty-two"}\nthen:\nsay: It has begun.')
    place.settle()
    (child,) = place.ledger("SELECT child_key FROM spawns")[0]
    visitor = visit(route("chat", MAIN))

    report = visitor.see(LINE, has_text="report of Main · child")
    report.locator(".message", has_text="Status: success").wait_for()
    report.locator("summary").click()
    report.locator("summary", has_text="forty-two").wait_for()
    visitor.go(route("chat", child))
    visitor.see(LINE, has_text="asked by Main what to report · reported to Main")
    assert visitor.words() == ["say: forty-two", "forty-two"]


def test_the_line_of_a_child_that_failed_says_why(visit: Visit, place: Place) -> None:
    key = place.make("errand")
    place.say(
        key, 'tool: sessions_spawn {"task": "fail: no chart", "label": "sail"}\nthen:\nsay: Go.'
    )
    place.settle()

    visit(route("chat", key)).see(f"{LINE} summary .state", has_text="failed: no chart")


def test_what_an_announce_says_is_a_message_and_lines_keep_to_the_order(visit: Visit) -> None:
    both, trimmed = visit().page.evaluate(DRAWN)

    first = "asked by Main · 2 rounds · announced"
    other = "asked by Main · 2 rounds · announced to no chat"
    end = ["Somebody asked for the ninth shelf.", f"{other} 1", "Nobody hears this."]
    end += ["announce: the session has no address"]
    assert both[:5] == ["Which shelf?", "The ninth.", f"{first} 1", "Hello there", f"{first} 2"]
    assert both[5:] == end
    assert trimmed[0] == f"{first} 1"
