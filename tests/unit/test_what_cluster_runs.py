"""`make cluster` says of every test that opens a ledger whether it is run on PostgreSQL, and why not."""

from pathlib import Path

from tests.cluster.left_out import FOLDERS_LEFT_OUT, LEFT_OUT
from tests.cluster.only_ledgers import FOLDERS, OPENS

ROOT = Path(__file__).parents[2]


def test_each_folder_whose_tests_open_a_ledger_is_run_on_postgresql_or_named_as_left_out() -> None:
    opening = {
        f"tests/{file.relative_to(ROOT / 'tests').parts[0]}"
        for file in (ROOT / "tests").rglob("test_*.py")
        if OPENS.search(file.read_text("utf-8"))
    }

    assert opening == {*FOLDERS, *FOLDERS_LEFT_OUT}


def test_what_is_left_out_is_there() -> None:
    for place in LEFT_OUT:
        file, _, name = place.partition("::")
        assert f"def {name}" in (ROOT / file).read_text("utf-8")
