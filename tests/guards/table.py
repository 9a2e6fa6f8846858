"""The guards of what SECURITY.md promises, item by item, each with what takes it away and the tests that notice.

`old` stands once in the file. `new` is the same without the guard, and still runs: a mutant that breaks everything proves
nothing.
"""

from typing import NamedTuple

STRANGERS = "tests/wire/test_strangers.py"
AUTH = "tests/unit/test_gateway_auth.py"
DECODING = "tests/hostile/test_decoding.py"
FETCH = "tests/unit/test_web_fetch.py"


class Guard(NamedTuple):
    item: int
    what: str
    path: str
    """Below src/crossclaw."""
    old: str
    new: str
    tests: tuple[str, ...]


GUARDS = (
    # ── 5: strangers and guesses ───────────────────────────────────────────────────────────────
    Guard(
        5,
        "a stranger has a deadline",
        "gateway/sockets.py",
        "ticket.due = loop.call_later(self.limits.stranger_time_s, ticket.cut)",
        "ticket.due = None",
        (f"{STRANGERS}::test_every_stranger_has_a_deadline_whatever_stage_it_is_in",),
    ),
    Guard(
        5,
        "cutting off does not wait for a peer that reads nothing",
        "gateway/sockets.py",
        "        self.known()\n        self._transport.abort()",
        "        self.known()\n        self._transport.close()",
        (f"{STRANGERS}::test_a_stranger_that_reads_no_answer_is_cut_off_too",),
    ),
    Guard(
        5,
        "an upgrade on a known connection is a stranger again",
        "gateway/sockets.py",
        "self._enter() if self.ticket.is_known else self.ticket",
        "self.ticket",
        (f"{STRANGERS}::test_an_upgrade_on_a_connection_that_is_known_begins_as_a_stranger",),
    ),
    Guard(
        5,
        "places of an address are bounded, and the oldest goes",
        "gateway/sockets.py",
        "            next(iter(mine)).cut()\n",
        "            pass\n",
        (
            f"{STRANGERS}::test_when_the_places_are_full_the_oldest_stranger_goes_and_no_known_client",
        ),
    ),
    Guard(
        5,
        "places of all addresses are bounded",
        "gateway/sockets.py",
        "elif len(self._all) >= self._places:",
        "elif False:",
        (f"{STRANGERS}::test_the_places_of_all_addresses_together_are_full_in_the_same_way",),
    ),
    Guard(
        5,
        "a flood pushes out its own address first",
        "gateway/sockets.py",
        "next(iter(self._by_network[most])).cut()",
        "next(iter(self._all)).cut()",
        (f"{STRANGERS}::test_a_flood_from_one_address_pushes_out_its_own",),
    ),
    Guard(
        5,
        "most open files are kept for whoever shows the secret",
        "gateway/sockets.py",
        "min(limits.strangers_max, int(files_max * limits.strangers_share))",
        "limits.strangers_max",
        (f"{STRANGERS}::test_strangers_leave_most_of_the_open_files_to_whoever_shows_the_secret",),
    ),
    Guard(
        5,
        "the right secret keeps its place",
        "gateway/handshake.py",
        "        on_secret()\n",
        "",
        (f"{STRANGERS}::test_whoever_has_shown_the_right_secret_keeps_its_place",),
    ),
    Guard(
        5,
        "a wrong secret waits, at a door",
        "gateway/auth.py",
        "        if self._opened(value, lock) is None:\n            await self._pauses.after_a_wrong_secret(address)\n",
        "        if self._opened(value, lock) is None:\n",
        (f"{AUTH}::test_each_wrong_secret_is_answered_later_than_the_one_before_up_to_a_second",),
    ),
    Guard(
        5,
        "the secret is compared before the pause",
        "gateway/auth.py",
        "        if self._opened(value, lock) is None:\n            await self._pauses.after_a_wrong_secret(address)\n",
        "        await self._pauses.after_a_wrong_secret(address)\n        if self._opened(value, lock) is None:\n",
        (f"{AUTH}::test_wrong_secrets_of_others_never_keep_the_right_one_waiting",),
    ),
    Guard(
        5,
        "pauses are bounded in all",
        "gateway/pauses.py",
        "self.waiting >= limits.pauses_max",
        "False",
        (f"{AUTH}::test_wrong_secrets_that_wait_are_numbered_also_from_many_addresses",),
    ),
    Guard(
        5,
        "pauses of an address are bounded",
        "gateway/pauses.py",
        "or self._waiting[network] >= limits.pauses_per_address_max",
        "or False",
        (f"{AUTH}::test_wrong_secrets_of_others_never_keep_the_right_one_waiting",),
    ),
    # ── 7: nothing foreign is decoded in the loop ──────────────────────────────────────────────
    Guard(
        7,
        "a charset is one that pages have",
        "tools/page_reader.py",
        'CHARSETS.get(charset.strip().lower(), "utf-8")',
        "charset.strip().lower()",
        (f"{FETCH}::test_codecs_that_are_programs_are_no_charsets",),
    ),
    Guard(
        7,
        "what comes packed is refused",
        "tools/web_fetch.py",
        'if response.headers.get("content-encoding", "identity").lower() != "identity":',
        "if False:",
        (f"{FETCH}::test_nothing_is_decoded_or_unpacked_in_the_loop",),
    ),
    Guard(
        7,
        "a frame is weighed before it is decoded",
        "gateway/frames.py",
        "        check_weight(data)\n",
        "",
        (f"{DECODING}::test_a_heavy_frame_is_refused_under_its_id_and_nobody_waits",),
    ),
    Guard(
        7,
        "a frame is no deeper than anything that walks it",
        "gateway/frames.py",
        "        check_depth(request.params)\n",
        "",
        (f"{DECODING}::test_what_is_just_not_too_heavy_or_too_deep_is_read",),
    ),
    Guard(
        7,
        "every body is weighed at the edge",
        "gateway/edge.py",
        "        untrusted.check(body)\n",
        "        pass\n",
        (f"{DECODING}::test_a_heavy_body_is_refused_on_every_route_and_nobody_waits",),
    ),
    Guard(
        7,
        "arguments of a model are weighed",
        "providers/calls.py",
        "value = untrusted.decode(text)",
        "value = msgspec.json.decode(text)",
        (f"{DECODING}::test_deep_or_heavy_arguments_of_a_model_are_no_object",),
    ),
    Guard(
        7,
        "requests sent ahead are bounded",
        "gateway/sockets.py",
        "if len(self.pipeline) > self.config.limits.pipelined_max:",
        "if False:",
        (f"{DECODING}::test_a_stranger_that_floods_is_cut_off_and_nobody_waits",),
    ),
    Guard(
        7,
        "the watchdog counts",
        "gateway/watchdog.py",
        "        if took_s > STALL_S:\n",
        "        if False:\n",
        ("tests/unit/test_watchdog.py::test_what_keeps_the_loop_busy_is_a_stall",),
    ),
    Guard(
        7,
        "SQLite's errors end at the ledger",
        "ledger/sqlite/errors.py",
        "        except apsw.Error as error:\n            raise StoreError",
        "        except ZeroDivisionError as error:\n            raise StoreError",
        ("tests/ledger/test_errors.py::test_a_read_that_fails_is_told_as_the_stores",),
    ),
)
