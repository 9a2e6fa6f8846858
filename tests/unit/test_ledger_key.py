"""Secrets that gateways keep for each other are encrypted with a key that each is given."""

from pathlib import Path

import msgspec
import pytest

from crossclaw.config import Config, Paths
from crossclaw.config.ledger import LedgerConfig
from crossclaw.config.ledger_key import KEY_VARIABLE, LedgerKey, NotOpened, find_ledger_key
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import ConfigInvalid
from crossclaw.domain.keys import SessionKey
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import open_gateway

ONE, OTHER = "1" * 44, "2" * 44


def test_a_secret_opens_with_the_same_key_and_for_the_same_thing_only() -> None:
    sealed = LedgerKey(ONE).seal("sk-1", "model key openai")
    assert "sk-1" not in sealed
    assert LedgerKey(ONE).unseal(sealed, "model key openai") == "sk-1"
    assert LedgerKey(ONE).seal("sk-1", "model key openai") != sealed, "equal ones do not look alike"
    for key, about, text in (
        (OTHER, "model key openai", sealed),
        (ONE, "model key evil", sealed),
        (ONE, "model key openai", sealed[:-8] + "AAAAAAA="),
        (ONE, "model key openai", "no base64"),
        (ONE, "model key openai", ""),
    ):
        with pytest.raises(NotOpened, match=KEY_VARIABLE):
            LedgerKey(key).unseal(text, about)


def test_a_new_key_before_the_old_one_opens_what_the_old_one_has_encrypted() -> None:
    before = LedgerKey(ONE).seal("sk-1", "x")
    both = LedgerKey(f"{OTHER} {ONE}")
    assert both.unseal(before, "x") == "sk-1"
    assert LedgerKey(OTHER).unseal(both.seal("sk-2", "x"), "x") == "sk-2"


@pytest.mark.parametrize("written", ["", "short", f"{ONE} short", " ".join([ONE] * 5)])
def test_a_key_that_could_be_guessed_is_refused(written: str) -> None:
    with pytest.raises(ConfigInvalid, match="openssl rand") as refused:
        LedgerKey(written)
    assert "short" not in str(refused.value)


def test_the_key_is_the_environments_or_in_the_file_that_the_config_names(tmp_path: Path) -> None:
    paths = Paths(tmp_path, tmp_path / "state", tmp_path / "openclaw.json")
    sealed = LedgerKey(ONE).seal("sk", "x")

    def found(file: str | None, environ: dict[str, str]) -> str | None:
        config = msgspec.structs.replace(Config(), ledger=LedgerConfig(key_file=file))
        key = find_ledger_key(config, paths, environ)
        return None if key is None else key.unseal(sealed, "x")

    assert found(None, {}) is None
    assert found(None, {KEY_VARIABLE: f" {ONE}\n"}) == "sk"
    (tmp_path / "key").write_text(f"{ONE}\n")
    assert found("key", {}) == "sk"
    with pytest.raises(NotOpened):
        found("key", {KEY_VARIABLE: OTHER})
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        found("missing", {})


@pytest.mark.anyio
async def test_the_file_of_the_key_is_no_agents_and_nobody_elses(tmp_path: Path) -> None:
    """Who has the key opens the secrets of all gateways, and who changes it decides whose configs are believed."""
    key = tmp_path / "elsewhere" / "ledger-key"
    key.parent.mkdir()
    key.write_text(ONE)
    config = Config(ledger=LedgerConfig(key_file=str(key)))
    async with open_gateway(tmp_path / "gateway", RehearsalProvider(), config=config) as gateway:
        assert key.stat().st_mode & 0o077 == 0, "it was too open"
        place = await gateway.places.of(SessionKey.main("main"), Authority(owner=True))
        assert key in place.closed
    key.chmod(0o666)
    with pytest.raises(ConfigInvalid, match="written by every user"):
        async with open_gateway(tmp_path / "gateway", RehearsalProvider(), config=config):
            pass
