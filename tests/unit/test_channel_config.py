"""What a config says about chat accounts: found by the channel's own type, each account over its section, and
every fault told with its line."""

import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from crossclaw.channels.registry import find_manifest
from crossclaw.config import load
from crossclaw.config.channel_accounts import accounts_in, defaults_in
from crossclaw.config.channels import AccountConfig
from crossclaw.domain.errors import ConfigInvalid
from tests.channels.pigeon import PigeonSettings, installed


@pytest.fixture
def pigeons(tmp_path: Path) -> Generator[None]:
    with installed(tmp_path / "site"):
        yield


def token(account: AccountConfig) -> str:
    assert isinstance(account.settings, PigeonSettings)
    return account.settings.bot_token.reveal() if account.settings.bot_token else ""


def accounts(tmp_path: Path, text: str, **environ: str) -> dict[str, AccountConfig]:
    file = tmp_path / "openclaw.json"
    file.write_text(text)
    config = load(file, environ).config
    found = accounts_in(config.channels, config.environment(environ))
    return {f"{each.channel}/{each.account_id}": each for each in found}


@pytest.mark.usefixtures("pigeons")
def test_a_channel_of_another_package_is_found_by_its_entry_point() -> None:
    manifest = find_manifest("Pigeon")
    assert manifest is not None
    assert manifest.title == "Pigeon"
    assert find_manifest("carrier") is None


@pytest.mark.usefixtures("pigeons")
def test_an_account_is_its_section_and_over_it_key_by_key_what_it_says_itself(
    tmp_path: Path,
) -> None:
    found = accounts(
        tmp_path,
        """{ channels: { defaults: { groupPolicy: "open" }, pigeon: {
            botToken: "shared", dm: { policy: "allowlist", allowFrom: [7] }, historyLimit: 9,
            accounts: { home: { botToken: "own" }, work: { dmPolicy: "disabled", allowFrom: ["8"] },
                        off: { enabled: false } } } } }""",
    )
    assert list(found) == ["pigeon/home", "pigeon/work"]
    home, work = found["pigeon/home"].settings, found["pigeon/work"].settings
    assert (home.dm_policy, home.allow_from, home.history_limit) == ("allowlist", (7,), 9)
    assert (work.dm_policy, work.allow_from, work.history_limit) == ("disabled", ("8",), 9)
    assert [token(each) for each in found.values()] == ["own", "shared"]
    assert "own" not in repr(found)


@pytest.mark.usefixtures("pigeons")
def test_a_token_in_the_environment_is_the_default_accounts_and_suffices(tmp_path: Path) -> None:
    assert list(accounts(tmp_path, "{}")) == []
    default = accounts(tmp_path, "{}", PIGEON_TOKEN="t")["pigeon/default"]
    found = default.settings
    assert found.dm_policy == "pairing"
    assert found.group_policy is None  # which is an allow list, never open
    assert token(default) == "t"
    assert (
        list(accounts(tmp_path, "{channels: {pigeon: {enabled: false}}}", PIGEON_TOKEN="t")) == []
    )
    written = accounts(
        tmp_path,
        '{channels: {dove: {botToken: {source: "env", id: "X"}}}}',
        X="y",
        PIGEON_TOKEN="t",
    )
    assert token(written["pigeon/default"]) == "y"


@pytest.mark.usefixtures("pigeons")
def test_an_account_that_says_one_of_two_keys_does_not_get_the_other(tmp_path: Path) -> None:
    section = (
        '{botToken: "shared", accounts: {a: {}, b: {tokenFile: "x"}, default: {tokenFile: "y"}}}'
    )
    found = accounts(tmp_path, f"{{channels: {{pigeon: {section}}}}}", PIGEON_TOKEN="t")
    assert {name: token(each) for name, each in found.items()} == {
        "pigeon/a": "shared",
        "pigeon/b": "",
        "pigeon/default": "",
    }


@pytest.mark.usefixtures("pigeons")
@pytest.mark.parametrize(
    ("section", "line", "words"),
    [
        ('dmPolicy: "all"', 2, "channels.pigeon.dmPolicy"),
        ("dmPolici: 1", 2, 'did you mean "dmPolicy"'),
        ('dmPolicy: "open"', 2, '"\\*" in allowFrom'),
        ('dm: { policy: "open" }', 2, '"\\*" in allowFrom'),
        ("accounts: {\n work: { historyLimit: -1 } }", 3, "accounts.work.historyLimit"),
        ('groups: { "1": { tools: { deny: "exec" } } }', 2, "tools.deny"),
    ],
)
def test_a_fault_is_told_with_its_line(tmp_path: Path, section: str, line: int, words: str) -> None:
    with pytest.raises(ConfigInvalid, match=words) as raised:
        accounts(tmp_path, f"{{ channels: {{ pigeon: {{\n{section} }} }} }}")
    assert f"openclaw.json:{line}:" in str(raised.value)


@pytest.mark.usefixtures("pigeons")
def test_a_name_in_an_allow_list_lets_nobody_in_and_says_so(tmp_path: Path) -> None:
    file = tmp_path / "openclaw.json"
    file.write_text(
        '{channels: {pigeon: {allowFrom: ["@ana", 7], groups: {"1": {users: ["ben"]}}}, nobody: {a: 1}}}'
    )
    loaded = load(file, {})
    warnings = "\n".join(loaded.all_warnings)
    assert '"@ana" is not an id of Pigeon' in warnings
    assert '"ben" is not an id of Pigeon' in warnings
    assert "channels.nobody" in warnings


def test_what_all_channels_have_in_common_is_read() -> None:
    assert defaults_in({}).group_policy is None
    assert defaults_in({"defaults": {"groupPolicy": "disabled"}}).group_policy == "disabled"


def test_what_a_channel_needs_is_imported_when_one_of_its_accounts_is_opened() -> None:
    """Reading a config with every channel in it, and saying what each may send, needs none of their clients."""
    code = (
        "import sys\n"
        "from crossclaw.channels.registry import list_manifests\n"
        "from crossclaw.config.channel_accounts import accounts_in\n"
        "names = [each.name for each in list_manifests()]\n"
        "found = accounts_in({name: {} for name in names}, {})\n"
        "heavy = [each for each in sys.modules if each in ('httpx2', 'nio', 'websockets', 'discord')]\n"
        "opened = [each for each in sys.modules if each.endswith(('.account', '.client'))]\n"
        "print(len(found) == len(names) > 6, heavy, opened)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "True [] []\n"
