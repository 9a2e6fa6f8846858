"""`.env` of the state folder: what OpenClaw's users have there is found, and the environment goes before it."""

from pathlib import Path

import pytest

from crossclaw.client.location import find_place, find_unread_place
from crossclaw.config.dotenv import parse_dotenv, read_dotenv
from crossclaw.domain.errors import ConfigInvalid


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=plain", "plain"),
        ("  export A = spaced out  # why", "spaced out"),
        ("A='single # kept'", "single # kept"),
        ('A="two\\nlines" # end', "two\nlines"),
        ('A="really\ntwo"', "really\ntwo"),
        ('A=`it\'s "both"`', 'it\'s "both"'),
        ('A="a \\"quote\\" and \\\\"', 'a "quote" and \\'),
        ("A=\r\n", None),
        ("A=#nothing", None),
        ('A="unclosed', '"unclosed'),
        ("\ufeffA=after a mark", "after a mark"),
        ("A=first\nA=last", "last"),
    ],
)
def test_a_line_is_read_as_openclaw_reads_it(line: str, value: str | None) -> None:
    assert parse_dotenv(f"{line}\nB=after").values == {"B": "after"} | (
        {"A": value} if value is not None else {}
    )


def test_a_line_that_says_nothing_is_named_and_the_others_count() -> None:
    assert parse_dotenv("# keys\n\nA=1\nthis is no line\n2B=x\nC=3") == (
        {"A": "1", "C": "3"},
        (4, 5),
    )


def test_the_environment_goes_before_it_and_it_goes_before_the_configs_own(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=file\nB=file\nC=file\n", "utf-8")
    (tmp_path / "openclaw.json").write_text(
        '{ env: { C: "config", D: "config" }, agents: { defaults: { model: "${A}/${B}/${C}/${D}" } } }'
    )
    place = find_place({"OPENCLAW_STATE_DIR": str(tmp_path), "A": "shell", "B": ""}, to_serve=True)
    assert place.config.agents.defaults.model == "shell/file/file/config"
    assert place.environ["B"] == "file"


def test_one_that_cannot_be_read_is_said_and_does_not_hide_a_gateway_that_runs(
    tmp_path: Path,
) -> None:
    (tmp_path / ".env").mkdir()
    environ = {"OPENCLAW_STATE_DIR": str(tmp_path)}
    with pytest.raises(ConfigInvalid, match=r"\.env cannot be read: Is a directory"):
        find_place(environ)
    assert find_unread_place(environ).paths.state_dir == tmp_path
    assert read_dotenv(tmp_path / "nowhere").values == {}
