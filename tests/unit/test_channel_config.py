"""What a config says about chat accounts: found by the channel's own type, each account over its section, and
every fault told with its line."""

import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from crossclaw.channels.registry import find_manifest
from crossclaw.config import load, manifests
from crossclaw.config.channel_accounts import accounts_in, defaults_in
from crossclaw.config.channels import AccountConfig
from crossclaw.domain.errors import ConfigInvalid

PIGEON = '''
from crossclaw.channels.manifest import ChannelManifest, Target, Traits
from crossclaw.config.channels import ChannelSettings
from crossclaw.config.section import Section
from crossclaw.domain.secret import Secret

class PigeonSettings(ChannelSettings, frozen=True):
    bot_token: Secret | None = None
    """The ring of the pigeon."""

MANIFEST = ChannelManifest(
    name="pigeon", title="Pigeon", aliases=("dove",), settings=PigeonSettings, open="pigeon_post:open_account",
    environ={"PIGEON_TOKEN": "botToken"}, traits=Traits(),
    read_target=Target, normalize_sender=lambda entry: entry if entry.isdigit() else None,
)
'''


@pytest.fixture
def pigeons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """A package of somebody else, installed as pip would."""
    site = tmp_path / "site"
    info = site / "pigeon_post-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "pigeon_post.py").write_text(PIGEON)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pigeon-post\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[crossclaw.channels]\npigeon = pigeon_post:MANIFEST\ndove = pigeon_post:MANIFEST\n"
    )
    monkeypatch.syspath_prepend(site)
    manifests.foreign.cache_clear()
    manifests._load.cache_clear()
    yield
    manifests.foreign.cache_clear()
    manifests._load.cache_clear()
    sys.modules.pop("pigeon_post", None)


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
    tokens = [getattr(each, "bot_token").reveal() for each in (home, work)]  # noqa: B009
    assert tokens == ["own", "shared"]
    assert "own" not in repr(found)


@pytest.mark.usefixtures("pigeons")
def test_a_token_in_the_environment_is_the_default_accounts_and_suffices(tmp_path: Path) -> None:
    assert list(accounts(tmp_path, "{}")) == []
    found = accounts(tmp_path, "{}", PIGEON_TOKEN="t")["pigeon/default"].settings
    assert found.dm_policy == "pairing"
    assert found.group_policy is None  # which is an allow list, never open
    assert getattr(found, "bot_token").reveal() == "t"  # noqa: B009
    assert (
        list(accounts(tmp_path, "{channels: {pigeon: {enabled: false}}}", PIGEON_TOKEN="t")) == []
    )
    written = accounts(
        tmp_path,
        '{channels: {dove: {botToken: {source: "env", id: "X"}}}}',
        X="y",
        PIGEON_TOKEN="t",
    )
    assert getattr(written["pigeon/default"].settings, "bot_token").reveal() == "y"  # noqa: B009


@pytest.mark.usefixtures("pigeons")
@pytest.mark.parametrize(
    ("section", "line", "words"),
    [
        ('dmPolicy: "all"', 2, "channels.pigeon.dmPolicy"),
        ("dmPolici: 1", 2, 'did you mean "dmPolicy"'),
        ('dmPolicy: "open"', 2, '"\\*" in allowFrom'),
        ('dm: { policy: "open" }', 2, '"\\*" in allowFrom'),
        ("accounts: {\n work: { historyLimit: -1 } }", 3, "accounts.work.historyLimit"),
        ('groups: { "1": { tools: { deny: ["exec"] } } }', 2, "tools"),
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
