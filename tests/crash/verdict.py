"""The verdict: the gateway's ledger and files held against the driver's own record."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise

import msgspec

from crossclaw.agent.view import INTERRUPTED, build_view
from crossclaw.domain.messages import ToolUse, UserMessage, words_of
from crossclaw.domain.runs import Run
from crossclaw.domain.sessions import Entry
from crossclaw.domain.sight import EVERYTHING
from crossclaw.domain.suspects import SUSPECT_AFTER
from crossclaw.ledger.sqlite.reading import search
from crossclaw.providers.contract import AssistantTurn, Turn, UserTurn
from crossclaw.transcripts.jsonl import entry_lines, header_line
from tests.crash.chapter import BEHIND_POISON, POISONED, STILL_S_MAX, STOP_S_MAX
from tests.crash.children import (
    children_are_archived,
    children_report_once,
    spawns_are_made_once,
)
from tests.crash.finding import Finding, Findings
from tests.crash.furnishing import Answered
from tests.crash.record import UNHEARD, Letter, Record
from tests.crash.store import Store, reporting_child

BEHIND_POISON_S_MAX = 5.0
# The tripping message falls once. The first fall of the poison comes after progress (the model's call for
# the tool was stored) and does not count; then it may have company, which costs one more.
FALLS_MAX = 1 + 1 + SUSPECT_AFTER + 2


def judge(store: Store, record: Record) -> list[Finding]:
    return [finding for check in CHECKS for finding in check(store, record)]


# ── messages ───────────────────────────────────────────────────────────────────────────────────


def letters_arrive_once(store: Store, record: Record) -> Findings:
    for letter in record.letters:
        found = store.users[letter.token]
        if len(letter.runs) > 1:
            yield Finding("doubled", f"{letter.token} was accepted as runs {letter.runs}")
        if len(found) > 1:
            yield Finding("doubled", f"{letter.token} is in the transcript {len(found)} times")
        elif found:
            yield from _letter_came_home(store, record, letter, found[0])
        elif letter.acknowledged and not _is_open(store, letter.runs):
            yield Finding("lost", f"{letter.token} was acknowledged and is nowhere")


def _is_open(store: Store, run_ids: Collection[str]) -> bool:
    """Then nothing is lost yet; what is left open at the end is told as stuck."""
    return any(not store.runs[run_id].ended for run_id in run_ids if run_id in store.runs)


def _letter_came_home(store: Store, record: Record, letter: Letter, entry: Entry) -> Findings:
    run = store.runs[entry.run_id or ""]
    if letter.runs and letter.runs != {run.run_id}:
        yield Finding("untrue", f"{letter.token} is run {run.run_id}, but {letter.runs} was told")
    if run.key != letter.place.key or run.session_id != entry.session_id:
        yield Finding("lost", f"{letter.token} came to another session: {run.key}")
    fate = "error" if run.run_id in record.excused else letter.fate
    if _is_open(store, [run.run_id]):
        return
    if run.status != fate:
        yield Finding("lost", f"the run of {letter.token} ended as {run.status}: {run.error}")
    elif fate == "error":
        if not run.error or not any(answer.error for answer in store.answers(run.run_id)):
            yield Finding("untrue", f"the run of {letter.token} failed and does not say why")
    else:
        yield from _replied_once(store, run, letter.reply)


def _replied_once(store: Store, run: Run, reply: str) -> Findings:
    finals = [answer for answer in store.answers(run.run_id) if not answer.tool_calls]
    texts = [answer.text for answer in finals]
    if not texts:
        yield Finding("lost", f"run {run.run_id} has no reply in the transcript")
    elif len(texts) > 1:
        yield Finding("doubled", f"run {run.run_id} has {len(texts)} replies in the transcript")
    elif texts != [reply] or run.reply != reply:
        yield Finding("untrue", f"run {run.run_id} replied {texts[0]!r} instead of {reply!r}")


def no_message_from_nowhere(store: Store, record: Record) -> Findings:
    for entry in store.users["?"]:
        yield Finding("torn", f"nobody sent entry {entry.seq} of session {entry.session_id}")


def letters_keep_their_order(store: Store, record: Record) -> Findings:
    for (client, place), letters in record.by_sender().items():
        places = [
            store.users[letter.token][0].seq for letter in letters if store.users[letter.token]
        ]
        if places != sorted(places):
            yield Finding("order", f"{client} in {place}: its messages stand at {places}")


def questions_are_answered(store: Store, record: Record) -> Findings:
    for letter in record.letters:
        if letter.asks is None or not store.users[letter.token]:
            continue
        asker, asked = store.users[letter.token][0].run_id or "", store.users[letter.asks]
        if len(asked) > 1:
            yield Finding("doubled", f"the question of {letter.token} was put {len(asked)} times")
        elif asked:
            yield from _question_came_home(store, record, letter, asker, asked[0])
        elif asker not in record.excused:
            yield Finding("lost", f"the question of {letter.token} is nowhere")


def _question_came_home(
    store: Store, record: Record, letter: Letter, asker: str, asked: Entry
) -> Findings:
    run = store.runs[asked.run_id or ""]
    if run.run_id not in record.excused:
        if run.status != "ok":
            yield Finding("lost", f"the question of {letter.token} ended as {run.status}")
        yield from _replied_once(store, run, f"re {letter.asks}")
    told = [msgspec.convert(result.content, Answered) for result in store.results(asker)]
    if asker not in record.excused and told != [Answered(run.run_id, run.status, run.reply)]:
        yield Finding("untrue", f"{letter.token} asked and was told {told}")


def outcomes_are_true(store: Store, record: Record) -> Findings:
    for outcome in record.outcomes:
        run = store.runs.get(outcome.run)
        if run is None:
            yield Finding("lost", f"run {outcome.run} was accepted, and nobody knows it")
        elif outcome.status != run.status or outcome.reply not in (run.reply, UNHEARD):
            yield Finding("untrue", f"{outcome} was told, but it is {run.status}: {run.reply}")


# ── transcripts ────────────────────────────────────────────────────────────────────────────────


def entries_have_no_holes(store: Store, record: Record) -> Findings:
    for export in store.exports:
        entries = store.entries[export.session_id]
        if [entry.seq for entry in entries] != list(range(1, export.last_seq + 1)):
            yield Finding("torn", f"session {export.key} has holes, or entries twice")
        if len({entry.entry_id for entry in entries}) != len(entries):
            yield Finding("torn", f"session {export.key} has entry ids twice")
        said = [entry for entry in entries if entry.message and not reporting_child(entry)]
        if any(entry.run_id not in store.runs for entry in said):
            yield Finding("torn", f"session {export.key} has entries of unknown runs")


def tool_calls_have_one_result(store: Store, record: Record) -> Findings:
    stamps = Counter(store.stamps)
    for run_id in store.runs.keys() - record.poison - record.excused:
        calls = [call for answer in store.answers(run_id) for call in answer.tool_calls]
        results = store.results(run_id)
        if Counter(call.id for call in calls) != Counter(result.tool_use_id for result in results):
            yield Finding("torn", f"run {run_id} has {len(calls)} calls and {len(results)} results")
        for result in results:
            interrupted = result.content == INTERRUPTED
            if result.is_error != interrupted:
                yield Finding("trouble", f"a tool of run {run_id} failed: {result.content}")
            done = result.tool_name == "stamp" and not interrupted
            if done and not stamps[run_id, result.tool_use_id]:
                yield Finding("lost", f"run {run_id} was told of a stamp that is not there")
    for (run_id, call_id), count in stamps.items():
        if count > 1:
            yield Finding(
                "doubled", f"call {call_id} of run {run_id} was carried out {count} times"
            )


def models_accept_every_transcript(store: Store, record: Record) -> Findings:
    for export in store.exports:
        wrong = _what_is_illegal(build_view(store.entries[export.session_id]))
        if wrong:
            yield Finding("torn", f"no model would accept session {export.key}: {wrong}")


def _what_is_illegal(turns: Sequence[Turn]) -> str | None:
    kinds = [type(turn) for turn in turns]
    if kinds != [(UserTurn, AssistantTurn)[n % 2] for n in range(len(kinds))]:
        return "turns do not alternate"
    for before, turn in pairwise(turns):
        if isinstance(turn, UserTurn):
            calls = [block.id for block in before.content if isinstance(block, ToolUse)]
            if calls != [result.tool_use_id for result in turn.results]:
                return f"calls {calls} are not answered"
    return None


def files_equal_the_ledger(store: Store, record: Record) -> Findings:
    folder = store.sessions
    found = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    found = {file: text for file, text in found.items() if ".jsonl.deleted." not in file.name}
    for export in store.exports:
        entries = store.entries[export.session_id]
        file = folder / export.agent_id / f"{export.session_id}.jsonl"
        text = found.pop(file, b"")
        if text != (header_line(export) + entry_lines(entries, None) if entries else b""):
            yield Finding("torn", f"{file.name} differs from the ledger")
        if export.exported_seq != export.last_seq or export.exported_bytes != len(text):
            yield Finding("torn", f"the ledger does not know how far {file.name} has come")
    for file in found:
        yield Finding("torn", f"{file.name} belongs to no session")


def search_finds_every_word(store: Store, record: Record) -> Findings:
    containing: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for entries in store.entries.values():
        for entry in entries:
            said = words_of(entry.message) if entry.message is not None else ""  # a note has none
            for word in set(_words(said)):
                containing[word].append((entry.session_id, entry.seq))
    everything = sum(map(len, store.entries.values()))
    for letter in record.letters:
        places = sorted(containing[letter.token])
        # A search also finds beginnings: the question's token begins with the letter's, and every round
        # of its exchange says it again.
        hits = search(store.db, letter.token, limit=everything, sight=EVERYTHING)
        exact = [hit for hit in hits if letter.token in _words(words_of(hit.entry.message))]  # type: ignore[arg-type]
        if sorted((hit.entry.session_id, hit.entry.seq) for hit in exact) != places:
            yield Finding(
                "torn", f"search finds {letter.token} {len(exact)} of {len(places)} times"
            )


def _words(text: str) -> list[str]:
    return "".join(sign if sign.isalnum() else " " for sign in text).split()


def _is_from_outside(entry: Entry) -> bool:
    return isinstance(entry.message, UserMessage)


def ledger_is_sound(store: Store, record: Record) -> Findings:
    if (answer := store.db.pragma("integrity_check")) != "ok":
        yield Finding("torn", f"SQLite says: {answer}")
    for run in store.runs.values():
        if not run.ended:
            yield Finding("stuck", f"run {run.run_id} is still {run.status}")
        said = [entry for entry in store.of_run[run.run_id] if _is_from_outside(entry)]
        if run.ended and len(said) != (run.key.text not in store.deleted):
            yield Finding("torn", f"run {run.run_id} has {len(said)} messages to answer")
    for table in ("inbox", "waits"):
        if count := store.count(f"SELECT count(*) FROM {table}"):
            yield Finding("stuck", f"{count} rows are left in {table}")


# ── deliveries ─────────────────────────────────────────────────────────────────────────────────


def replies_are_delivered_once(store: Store, record: Record) -> Findings:
    sent: dict[str, list[str]] = defaultdict(list)
    for sending in record.sendings:
        sent[sending.key].append(sending.text)
    rows = {delivery.delivery_key: delivery for delivery in store.deliveries}
    for run in store.runs.values():
        if run.ended and run.plan.reply_to is not None and f"reply:{run.run_id}" not in rows:
            yield Finding("lost", f"the reply of run {run.run_id} is not in the outbox")
    for key, delivery in rows.items():
        sure, texts = delivery.address.channel == "sure", sent.pop(key, [])
        if delivery.state not in (("delivered",) if sure else ("delivered", "uncertain")):
            yield Finding("stuck", f"{key} is {delivery.state}: {delivery.error}")
        if delivery.state == "delivered" and not texts:
            yield Finding("lost", f"{key} was never sent")
        # A platform that knows our keys shows the same message once, whatever we repeat.
        if len(set(texts) if sure else texts) > 1:
            yield Finding("doubled", f"{key} was sent {len(texts)} times")
        if set(texts) - {delivery.text}:
            yield Finding("untrue", f"{key} was sent as {texts}")
    for key in sent:
        yield Finding("untrue", f"{key} was sent and is not in the outbox")


def replies_keep_their_order(store: Store, record: Record) -> Findings:
    place = {delivery.delivery_key: delivery.delivery_id for delivery in store.deliveries}
    chats: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for sending in record.sendings:
        chats[sending.channel, sending.chat][sending.key] = None
    for chat, keys in chats.items():
        places = [place.get(key, 0) for key in keys]
        if places != sorted(places):
            yield Finding("order", f"replies came to {chat} as {places}")


# ── the whole ──────────────────────────────────────────────────────────────────────────────────


def poison_is_given_up(store: Store, record: Record) -> Findings:
    poisoned = [letter for letter in record.letters if letter.place == POISONED]
    if len(poisoned) != 1 + BEHIND_POISON:
        return  # it did not come so far, which somebody else tells
    if record.falls > FALLS_MAX:
        yield Finding("stuck", f"poison killed {record.falls} processes")
    if record.behind_poison_s > BEHIND_POISON_S_MAX:
        yield Finding("stuck", f"messages behind poison waited {record.behind_poison_s:.1f} s")


def only_who_may_have_killed_is_given_up(store: Store, record: Record) -> Findings:
    """At work at three deaths at least, the last of which came from outside; one run a death."""
    last_deaths: Counter[int] = Counter()
    for run_id in record.given_up:
        deaths = [n for n, death in enumerate(record.deaths) if run_id in death.at_work]
        last_deaths.update(deaths[-1:])
        if len(deaths) <= SUSPECT_AFTER:
            yield Finding("lost", f"run {run_id} is given up after {len(deaths)} deaths")
        elif not record.deaths[deaths[-1]].from_outside:
            yield Finding("lost", f"run {run_id} is given up for what the poison did")
    for death, count in last_deaths.items():
        if count > 1:
            yield Finding("lost", f"{count} runs are given up for death {death} alone")


def everything_ends_in_time(store: Store, record: Record) -> Findings:
    if record.drain_s is None:
        yield Finding("stuck", f"there is work left, and nothing went on for {STILL_S_MAX:.0f} s")
    for stop_s in record.stops_s:
        if stop_s > STOP_S_MAX:
            yield Finding("stuck", f"a graceful stop took {stop_s:.1f} s")


def nobody_complains(store: Store, record: Record) -> Findings:
    for text in (*record.fallen, *record.refusals, *store.complaints):
        if not any(excuse in text for excuse in record.excuses):
            yield Finding("trouble", text)


def exchanges_go_on_and_end(store: Store, record: Record) -> Findings:
    """Each round and the announce once, and none missing: whatever died when."""
    for exchange_id, state, turn in store.db.execute(
        "SELECT exchange_id, state, turn FROM exchanges"
    ):
        if state != "over":
            yield Finding("lost", f"exchange {exchange_id} is {state} at turn {turn}")
        steps = [f"{exchange_id}::round-{number}" for number in range(1, turn + 1)]
        if store.runs[exchange_id].status == "ok":
            steps.append(f"{exchange_id}::announce")
        for run_id in steps:
            said = [e for e in store.of_run[run_id] if isinstance(e.message, UserMessage)]
            if run_id not in store.runs or not said:
                yield Finding("lost", f"there is no {run_id}")
            elif len(said) > 1:
                yield Finding("doubled", f"{run_id} was begun {len(said)} times")


CHECKS: Sequence[Callable[[Store, Record], Findings]] = (
    letters_arrive_once,
    no_message_from_nowhere,
    letters_keep_their_order,
    questions_are_answered,
    exchanges_go_on_and_end,
    spawns_are_made_once,
    children_report_once,
    children_are_archived,
    outcomes_are_true,
    entries_have_no_holes,
    tool_calls_have_one_result,
    models_accept_every_transcript,
    files_equal_the_ledger,
    search_finds_every_word,
    ledger_is_sound,
    replies_are_delivered_once,
    replies_keep_their_order,
    poison_is_given_up,
    only_who_may_have_killed_is_given_up,
    everything_ends_in_time,
    nobody_complains,
)
