"""Guards that came after the first table: a workspace's room, guests, hooks, servers' new tools, transcripts."""

from tests.guards.guard import Guard

ROOM = "tests/sandbox/test_workspace_room.py"
FILLS = f"{ROOM}::test_a_command_that_fills_the_workspace_is_ended_and_then_it_can_only_be_emptied"
GUESTS = "tests/flows/test_guests.py"

WAYS_OUT = "tests/sandbox/test_ways_out.py"

NO_MARKS = "tests/unit/test_pictures.py::test_no_name_of_a_picture_or_file_is_a_mark_of_the_gateway"

JUMPS = "tests/flows/test_a_clock_that_jumps.py"

LATER = (
    Guard(
        10,
        "a clock that is set ahead makes no session old",
        "ledger/sqlite/chores.py",
        "        moment -= ended - began\n",
        "        pass\n",
        (JUMPS,),
    ),
    Guard(
        10,
        "nor before the sweep has seen that it was set",
        "sessions/retention.py",
        "                continue  # the clock was set",
        "                pass  # the clock was set",
        (JUMPS,),
    ),
    Guard(
        6,
        "names of pictures and files hold no mark of the gateway",
        "agent/view.py",
        "else with_plain_names(block)",
        "else block",
        (NO_MARKS,),
    ),
    Guard(
        6,
        "notes in the place of pictures hold none",
        "agent/origin.py",
        'Text(f"[{unmarked(text)}]")',
        'Text(f"[{text}]")',
        (NO_MARKS,),
    ),
    Guard(
        6,
        "what is said about marked words holds none",
        "agent/origin.py",
        "{about and f'; {unmarked(about)}'}",
        "{about and f'; {about}'}",
        (NO_MARKS,),
    ),
    Guard(
        15,
        "a port that a killed gateway has left behind is not believed",
        "disk/held.py",
        "        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)\n",
        "        raise BlockingIOError\n",
        ("tests/client/test_finding.py",),
    ),
    Guard(
        17,
        "a model service sends nobody elsewhere",
        "providers/lines.py",
        'event_hooks={"response": [_stay_there]},',
        "",
        ("tests/unit/test_provider_redirects.py",),
    ),
    Guard(
        10,
        "sockets of the desktop are kept away",
        "sandbox/keeper.py",
        "            _keep_from_others()\n",
        "            pass\n",
        (f"{WAYS_OUT}::test_with_the_machines_network_its_desktop_is_still_out_of_reach",),
    ),
    Guard(
        10,
        "of the kernel's own sockets there is one",
        "sandbox/seccomp.py",
        "(_EQUAL, 1, 0, ROUTES)",
        "(_EQUAL, 1, 1, ROUTES)",
        (f"{WAYS_OUT}::test_of_the_kernels_own_sockets_there_is_the_one_that_programs_need",),
    ),
    Guard(
        10,
        "files in memory count as memory",
        "sandbox/keeper.py",
        " + _files_in_memory(pids) >",
        " >",
        (f"{WAYS_OUT}::test_files_in_memory_count_as_memory_and_so_do_their_names",),
    ),
    Guard(
        12,
        "a guest sets no session but its own and its children's",
        "sessions/status.py",
        "            _refuse_anothers(caller.principal, session)\n",
        "",
        (f"{GUESTS}::test_a_guest_sets_no_session_but_its_own_and_its_childrens",),
    ),
    Guard(
        6,
        "a tool that a server brings later is held",
        "ledger/sqlite/agreed_tools.py",
        "digest if is_first_sight else NOTHING",
        "digest",
        (
            "tests/flows/test_mcp_tools_that_change.py::test_a_tool_that_comes_after_the_server_was_first_seen_is_held",
        ),
    ),
    Guard(
        6,
        "hooks leave places to jobs and agents",
        "providers/registry.py",
        "[self._outside] if request.outside else []",
        "[]",
        (
            "tests/unit/test_provider_registry.py::test_calls_of_hooks_leave_places_for_jobs_and_agents",
        ),
    ),
    Guard(
        6,
        "what a hook brings about stands with the hook",
        "domain/authority.py",
        "any(maker.credential_id == HOOKS for maker in self.made_by)",
        "False",
        ("tests/flows/test_who_waits_at_a_model.py",),
    ),
    Guard(
        9,
        "a damaged entry is shown in its place to people's clients",
        "sessions/fitting.py",
        "return entry.message is not None or is_unreadable(entry)",
        "return entry.message is not None",
        ("tests/flows/test_one_bad_row.py",),
    ),
    Guard(
        10,
        "a folder is measured while a command runs",
        "sandbox/keeper.py",
        "_passed(limits, disk) or size.passed():",
        "_passed(limits, disk):",
        (FILLS,),
    ),
    Guard(
        10,
        "nothing is written into a full workspace by a command",
        "sandbox/room.py",
        "file_bytes=0 if is_full else limits.file_bytes,",
        "file_bytes=limits.file_bytes,",
        (FILLS,),
    ),
    Guard(
        10,
        "nor by a file tool",
        "sandbox/files.py",
        "        place.room.refuse_more(size)\n",
        "        pass\n",
        (FILLS,),
    ),
    Guard(
        10,
        "what is too deep to be measured is too large",
        "sandbox/keeper.py",
        "        return sys.maxsize, sys.maxsize\n    finally:",
        "        return size, files\n    finally:",
        (f"{ROOM}::test_a_tree_that_is_too_deep_to_be_measured_counts_as_too_large",),
    ),
    Guard(
        10,
        "the last names of a disk are watched closely",
        "sandbox/keeper.py",
        " or names < FREE_NAMES * NEAR",
        "",
        (f"{ROOM}::test_the_end_of_a_disks_names_is_watched_as_closely_as_that_of_its_bytes",),
    ),
    Guard(
        12,
        "no path of this machine is told to a guest",
        "policy/visibility.py",
        "return not (self.sandboxed or self.key.is_guest)",
        "return not self.sandboxed",
        (f"{GUESTS}::test_no_path_of_this_machine_is_told_to_a_guest",),
    ),
    Guard(
        12,
        "nor in what its child reports",
        "sessions/spawn_report.py",
        "transcript=None if elsewhere else str(path)",
        "transcript=str(path)",
        (f"{GUESTS}::test_no_path_of_this_machine_is_told_to_a_guest",),
    ),
    Guard(
        12,
        "a message in the hands of a client without an id is its own",
        "sessions/guest_clients.py",
        "        if self.has_message:\n",
        "        if self.has_message and self.client_id is not None:\n",
        (f"{GUESTS}::test_a_message_in_a_clients_hands_is_not_for_the_second_under_its_name",),
    ),
    Guard(
        13,
        "no command of a free agent reads the transcripts",
        "sandbox/masked.py",
        '        yield from ("--perms", "0700", "--tmpfs", state)\n',
        '        yield from ("--perms", "0700", "--tmpfs", state, "--ro-bind-try", f"{state}/sessions", f"{state}/sessions")\n',
        ("tests/sandbox/test_secrets.py::test_no_command_reads_what_was_said_in_sessions",),
    ),
    Guard(
        17,
        "a list of secrets that comes back as it was shown is kept",
        "config/model.py",
        "shown: dict[str, Any] = msgspec.json.decode(text)",
        'shown: dict[str, Any] = msgspec.to_builtins(self, enc_hook=lambda _secret: "(hidden)")',
        (
            "tests/wire/test_config.py::test_a_list_of_secrets_that_comes_back_as_it_was_shown_is_kept",
        ),
    ),
)
