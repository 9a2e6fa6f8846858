"""What `make cluster` does not run, and why. All of it is run by `make test`, on SQLite."""

FILE = "looks at the file itself: its pages, its pragmas, what is wrong in it"
DAMAGE = "writes damage into the file; a server checks its pages and takes no text that is none"
UPGRADES = "stores of earlier releases: none of them was kept in PostgreSQL"
ENGINE = "stands in for a part of SQLite's engine"
PLAN = "reads SQLite's query plan"
LONG = (
    "hours of virtual time, in which every look at the ledger is a round trip: minutes of real time"
)

MANY = (
    "dozens of whole gateways, each with a database of its own: half of all the time that there is"
)

LEFT_OUT = {
    "tests/properties/test_cascade_laws.py": MANY,
    "tests/properties/test_budget_laws.py": MANY,
    "tests/properties/test_a_life.py": MANY,
    "tests/unit/test_transcript_exporter.py::test_an_entry_that_cannot_be_read_stands_in_its_place_as_such": DAMAGE,
    "tests/unit/test_transcript_exporter.py::test_a_mark_beyond_the_ledger_tells_nothing": FILE,
    "tests/wire/test_openai.py::test_metrics_count_rows_that_cannot_be_read": DAMAGE,
    "tests/wire/test_pairing.py::test_devices_outlive_a_restart_and_their_tokens_lie_nowhere": FILE,
    "tests/unit/test_channel_checks.py::test_several_people_in_one_session_are_told": FILE,
    "tests/ledger/test_store.py": FILE,
    "tests/ledger/test_copying.py": FILE,
    "tests/ledger/test_upgrades.py": UPGRADES,
    "tests/flows/test_one_bad_row.py": DAMAGE,
    "tests/flows/test_figures.py::test_an_older_store_gets_the_figures": UPGRADES,
    "tests/ledger/test_media.py::test_pictures_of_an_old_store_move_out_of_its_messages": UPGRADES,
    "tests/ledger/test_media.py::test_damage_to_a_picture_is_named": DAMAGE,
    "tests/ledger/test_media.py::test_neither_a_picture_nor_its_names_are_found_by_reading_all_of_them": PLAN,
    "tests/ledger/test_writer.py::test_a_full_disk_refuses_loses_nothing_and_recovers_by_itself": FILE,
    "tests/ledger/test_rest.py::test_decisions_are_remembered": FILE,
    "tests/ledger/test_errors.py::test_what_a_rule_of_the_store_refuses": FILE,
    "tests/flows/test_what_reviewers_found.py::test_refusals_between_agents_are_written_down": ENGINE,
    "tests/flows/test_replies_reach_their_chat.py::test_retries_end": LONG,
    "tests/ledger/test_contract.py::test_what_cannot_be_read_is_told_as_the_stores_by_every_read": FILE,
    "tests/ledger/test_sights.py::test_an_index_answers_so_that_a_million_sessions_cost_nothing": PLAN,
}

BEFORE = "about what comes before the ledger: {}"
PROGRAM = "the program itself in processes of its own, with a file; {}"

FOLDERS_LEFT_OUT = {
    "tests/channels": BEFORE.format(
        "each platform's wire; what it brings is stored by tests/flows"
    ),
    "tests/contracts": BEFORE.format("models' wire formats"),
    "tests/hostile": BEFORE.format(
        "mostly what never gets there; some measure that the loop does not stand still, which a database a test does to it"
    ),
    "tests/proof": MANY,
    "tests/cli": PROGRAM.format("its ledger is opened by the same lines as tests/wire's"),
    "tests/client": PROGRAM.format("about the other end of the wire"),
    "tests/docs": PROGRAM.format("about the pages"),
    "tests/process": PROGRAM.format(
        "tests/cluster kills its own, and a sample of the crash rig is run"
    ),
    "tests/browser": PROGRAM.format("about the page, which asks a gateway"),
}
"""Whole folders; of each the tests that open a ledger."""
