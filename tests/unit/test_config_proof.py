"""A config in the ledger is believed when a gateway has stored it, and not when somebody has written into the table."""

from typing import Any

import msgspec
import pytest

from crossclaw.app.config_proof import SEALS_MAX, ConfigProof
from crossclaw.config.ledger_key import LedgerKey
from crossclaw.domain.secret import Secret
from crossclaw.ledger.shared_settings import AgreedConfig, SealedSecret

TOKEN, KEY = Secret("the token of all gateways"), LedgerKey("k" * 44)
WRITTEN = AgreedConfig(
    epoch=7,
    digest="d",
    keys={"tools.exec.security": "d1", "session.scope": "d2"},
    text='{"tools":{"exec":{"security":"deny"}}}',
    secrets=(SealedSecret(("hooks", "token"), 7, "sealed"),),
    by="a",
)


@pytest.mark.parametrize(
    "change",
    [
        {"epoch": 8},
        {"digest": "e"},
        {"keys": {}},
        {"text": '{"tools":{"exec":{"security":"full"}}}'},
        {"secrets": ()},
        {"secrets": (SealedSecret(("hooks", "token"), 8, "sealed"),)},
        {"by": "b"},
        {"seal": ""},
        {"seal": " "},
        {"seal": "ü"},
        {"seal": "salt.mac . .x x."},
    ],
    ids=repr,
)
def test_whoever_writes_to_the_table_changes_nothing_of_a_config_and_stores_it_under_no_other_number(
    change: dict[str, Any],
) -> None:
    for key in (None, KEY):
        proof = ConfigProof(TOKEN, key)
        stored = proof.sealed(WRITTEN)
        assert proof.is_proven(stored)
        assert not proof.is_proven(msgspec.structs.replace(stored, **change))


def test_the_token_or_the_ledger_key_is_enough_and_another_of_either_is_none() -> None:
    stored = ConfigProof(TOKEN, KEY).sealed(WRITTEN)
    other, new = Secret("another token"), LedgerKey("n" * 44 + " " + "k" * 44)
    assert ConfigProof(TOKEN, None).is_proven(stored), "it has no ledger key"
    assert ConfigProof(other, new).is_proven(stored), "both were changed, and the old key is kept"
    assert not ConfigProof(other, None).is_proven(stored)
    assert not ConfigProof(other, LedgerKey("o" * 44)).is_proven(stored)
    read = msgspec.json.decode(msgspec.json.encode(stored), type=AgreedConfig)
    assert ConfigProof(TOKEN, None).is_proven(read), "as the table gives it back"


def test_many_seals_cost_no_more_than_a_few_slow_digests() -> None:
    proof = ConfigProof(TOKEN, None)
    many = " ".join(f"{number:032x}.{number:064x}" for number in range(1_000))
    assert not proof.is_proven(msgspec.structs.replace(WRITTEN, seal=many))
    assert len(proof._digests) <= SEALS_MAX


def test_the_seal_shows_neither_the_token_nor_the_key() -> None:
    stored = ConfigProof(TOKEN, KEY).sealed(WRITTEN)
    assert TOKEN.reveal() not in stored.seal
    assert "k" * 44 not in stored.seal
    again = ConfigProof(TOKEN, None).sealed(WRITTEN)
    assert again.seal not in stored.seal, (
        "each gateway has a salt of its own: nobody prepares a list of short tokens"
    )
    assert ConfigProof(TOKEN, None).is_proven(again)
