"""The guards of what SECURITY.md promises, item by item, each with what takes it away and the tests that notice.

`old` stands once in the file. `new` is the same without the guard, and still runs: a mutant that breaks everything proves
nothing.
"""

from typing import NamedTuple

STRANGERS = "tests/wire/test_strangers.py"
AUTH = "tests/unit/test_gateway_auth.py"
DECODING = "tests/hostile/test_decoding.py"
FETCH = "tests/unit/test_web_fetch.py"
REVOKED = "tests/wire/test_revocation.py"
PRIVATE = "tests/unit/test_private_files.py"


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
        "self._places = max(1, min(limits.strangers_max, share))",
        "self._places = limits.strangers_max",
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
    # ── 1: one opener, and the owner's words ───────────────────────────────────────────────────
    Guard(
        1,
        "no folder on the way is a link",
        "sandbox/files.py",
        "_FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_DIRECTORY",
        "_FOLDER = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY",
        ("tests/sandbox/test_owners_words.py", "tests/sandbox/test_files.py"),
    ),
    Guard(
        1,
        "only a regular file is read",
        "sandbox/files.py",
        "        if not stat.S_ISREG(about.st_mode):\n",
        "        if False:\n",
        ("tests/flows/test_heartbeats.py", "tests/sandbox/test_files.py"),
    ),
    Guard(
        1,
        "no config lies where agents can write",
        "sandbox/places.py",
        "        refuse_config_within(self._config_files, self._writable())\n",
        "",
        ("tests/sandbox/test_owners_words.py::test_a_config_where_agents_can_write_is_refused",),
    ),
    Guard(
        1,
        "no workspace lies where a sandboxed session could swap it",
        "sandbox/places.py",
        "        refuse_nested(self._workspaces(), self._boxed())\n",
        "",
        (
            "tests/sandbox/test_owners_words.py::test_a_workspace_that_another_agent_could_swap_is_refused",
        ),
    ),
    Guard(
        1,
        "the owner's words are not written in a sandbox",
        "sandbox/files.py",
        "if at_root and _is_prompt_file(name):",
        "if False:",
        (
            "tests/sandbox/test_owners_words.py::test_no_file_tool_of_a_sandboxed_session_writes_them",
        ),
    ),
    # ── 2, 14: authority is read at the moment of use, and stored work carries its maker ────────
    Guard(
        2,
        "a tool that a rule has taken away is not called",
        "agent/toolbox.py",
        "if tool is None or tools.is_taken_away(call.name):",
        "if tool is None:",
        ("tests/flows/test_rules_hold_at_once.py",),
    ),
    Guard(
        2,
        "a call under way is stopped when its rule changes",
        "agent/toolbox.py",
        "                each.scope.cancel()\n",
        "                pass\n",
        (
            "tests/flows/test_rules_hold_at_once.py::test_a_call_that_is_under_way_is_stopped_when_its_rule_changes",
        ),
    ),
    Guard(
        14,
        "an older epoch of a credential does not count",
        "policy/credentials.py",
        "return epoch is not None and maker.epoch in (None, epoch)",
        "return epoch is not None",
        (REVOKED,),
    ),
    Guard(
        14,
        "a credential that is gone does not count",
        "policy/credentials.py",
        "return epoch is not None and maker.epoch in (None, epoch)",
        "return epoch is None or maker.epoch in (None, epoch)",
        (REVOKED,),
    ),
    Guard(
        14,
        "who made something is kept by everything that it causes",
        "domain/authority.py",
        "made_by=self.made_by | other.made_by",
        "made_by=other.made_by",
        ("tests/properties/test_authority.py", REVOKED),
    ),
    # ── 4: cascades have one counter ───────────────────────────────────────────────────────────
    Guard(
        4,
        "runs of one root are bounded",
        "ledger/sqlite/cascades.py",
        "if sum(runs_of(db, root)) > runs_max:",
        "if False:",
        ("tests/flows/test_cascades_are_counted.py",),
    ),
    Guard(
        4,
        "living children are bounded",
        "ledger/sqlite/cascades.py",
        "if row and row[0] > children_max:",
        "if False:",
        ("tests/flows/test_cascades_are_counted.py",),
    ),
    # ── 6, 17: outside text chooses nothing ────────────────────────────────────────────────────
    Guard(
        6,
        "a key that a request chooses needs the owner's leave",
        "schedule/hooks.py",
        "if not within_hooks and not hooks.allow_request_session_key:",
        "if False:",
        ("tests/wire/test_hooks.py",),
    ),
    Guard(
        17,
        "what reaches into the machine is set in the local file only",
        "config/remote.py",
        "if key in section.local or (key == INCLUDE and key in after):",
        "if False:",
        ("tests/unit/test_config_over_the_wire.py",),
    ),
    # ── 8: ids tell nothing ────────────────────────────────────────────────────────────────────
    Guard(
        8,
        "ids of entries do not meet by chance",
        "domain/ids.py",
        "    8  # of four",
        "    3  # of four",
        ("tests/flows/test_ids_tell_nothing.py",),
    ),
    # ── 10: the rest ───────────────────────────────────────────────────────────────────────────
    Guard(
        10,
        "no client writes the id of a follower",
        "ledger/sqlite/runs.py",
        "if is_follower_id(new.run_id) and not new.cause.chain:",
        "if False:",
        ("tests/flows/test_ids_of_followers.py",),
    ),
    Guard(
        10,
        "the folder itself is locked",
        "ledger/sqlite/store.py",
        "            _lock_folder(self._folder)\n",
        "",
        (f"{PRIVATE}::test_a_lock_file_that_is_renamed_or_removed_lets_no_second_gateway_in",),
    ),
    Guard(
        10,
        "a file tool leaves room for the ledger",
        "sandbox/files.py",
        "    refuse_full_disk(place)\n",
        "",
        ("tests/sandbox/test_kernel.py::test_a_file_tool_leaves_the_disk_to_the_ledger_as_well",),
    ),
    Guard(
        10,
        "a command leaves room for the ledger",
        "sandbox/keeper.py",
        'if free_bytes(disk) < limits["free"]:',
        "if False:",
        (
            "tests/sandbox/test_kernel.py::test_a_command_is_ended_before_it_takes_the_disk_from_the_ledger",
        ),
    ),
    Guard(
        10,
        "every sandboxed program has the filter of system calls",
        "sandbox/bubblewrap.py",
        'argv, self._environ, Path("/"), self._limits, seccomp_program(), disk=place.folder',
        'argv, self._environ, Path("/"), self._limits, disk=place.folder',
        ("tests/sandbox/test_kernel.py::test_every_process_has_the_filter",),
    ),
    Guard(
        10,
        "reading on from a cursor goes forward",
        "gateway/methods/search.py",
        "forward = params.after is not None",
        "forward = False",
        ("tests/flows/test_onlookers.py",),
    ),
    # ── 12: sight is given, never assumed ──────────────────────────────────────────────────────
    Guard(
        12,
        "who is no person's client sees what it was given",
        "door/resolver.py",
        'return principal.sight == "everything" or key.text in self._given(principal)',
        "return True",
        ("tests/proof/test_principals.py", "tests/wire/test_nodes.py"),
    ),
    Guard(
        12,
        "nothing given is nothing seen",
        "door/resolver.py",
        "            case _:\n                return NOTHING\n",
        "            case _:\n                return EVERYTHING\n",
        ("tests/proof/test_principals.py", "tests/wire/test_nodes.py"),
    ),
    # ── 13: secrets lie out of the agent's reach ───────────────────────────────────────────────
    Guard(
        13,
        "no agent opens what belongs to the gateway",
        "sandbox/files.py",
        "    if (about.st_dev, about.st_ino) in closed:\n",
        "    if False:\n",
        (
            "tests/sandbox/test_owners_words.py::test_a_free_session_does_not_reach_the_gateways_own_files",
        ),
    ),
    # ── 15: one maker of private files ─────────────────────────────────────────────────────────
    Guard(
        15,
        "what belongs to another user is refused",
        "disk/guarding.py",
        "if found.st_uid not in (os.geteuid(), 0):",
        "if False:",
        (f"{PRIVATE}::test_what_belongs_to_another_user_is_refused",),
    ),
    Guard(
        15,
        "what everybody can write is refused",
        "disk/guarding.py",
        "if found.st_mode & stat.S_IWOTH and not _is_shared_folder(found):",
        "if False:",
        (f"{PRIVATE}::test_what_everybody_can_write_is_refused_with_the_command_that_fixes_it",),
    ),
    Guard(
        15,
        "a folder above that everybody can write is refused",
        "disk/guarding.py",
        "        _refuse_above(path)\n",
        "",
        (f"{PRIVATE}::test_a_folder_above_that_everybody_can_write_is_refused_too",),
    ),
    Guard(
        15,
        "what a group with others can write is refused",
        "disk/guarding.py",
        "if found.st_mode & stat.S_IWGRP and not trust_group:",
        "if False:",
        (f"{PRIVATE}::test_what_a_group_with_others_can_write_is_refused_unless_it_is_trusted",),
    ),
    Guard(
        15,
        "the gateway looks before it believes",
        "app/serving.py",
        "    await _look_after_files(config, paths, outside)\n",
        "",
        (f"{PRIVATE}::test_a_gateway_does_not_open_on_a_folder_that_everybody_can_write",),
    ),
    # ── 3: authority only shrinks ──────────────────────────────────────────────────────────────
    Guard(
        3,
        "no child has a network that its parent has not",
        "domain/authority.py",
        "network=self.network and other.network,",
        "network=other.network,",
        ("tests/properties/test_authority.py",),
    ),
    Guard(
        3,
        "no child has models that its parent has not",
        "domain/authority.py",
        "models=_both(self.models, other.models),",
        "models=other.models,",
        ("tests/properties/test_authority.py",),
    ),
    # ── 9: one bad row hurts one row ───────────────────────────────────────────────────────────
    Guard(
        9,
        "rows that cannot be read are read one by one",
        "ledger/sqlite/damage.py",
        "        return list(_one_by_one(db, table, sql, values, make, damaged))\n",
        "        raise\n",
        ("tests/flows/test_one_bad_row.py",),
    ),
    Guard(
        9,
        "a damaged run does not hold its lane",
        "runs/lanes.py",
        "        if not isinstance(error, StoreDamaged):\n",
        "        if True:\n",
        ("tests/flows/test_one_bad_row.py",),
    ),
    # ── 16: terminals get cleaned text ─────────────────────────────────────────────────────────
    Guard(
        16,
        "what steers a terminal is left out",
        "display/cleaning.py",
        '"".join(filter(_is_shown, _SEQUENCE.sub("", text)))',
        "text",
        ("tests/unit/test_cleaning.py",),
    ),
)
