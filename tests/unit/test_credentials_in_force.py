"""Credentials in force: who listens hears when one has ended, and only then."""

import pytest

from crossclaw.domain.authority import Authority, CredentialRef
from crossclaw.domain.errors import CredentialEnded
from crossclaw.policy.credentials import Credentials


@pytest.mark.spec("B3")
def test_an_end_is_told_at_once_and_a_beginning_is_not() -> None:
    credentials, heard = Credentials(), list[int]()
    credentials.listen(lambda: heard.append(credentials.ended))

    credentials.put("device", 5)
    credentials.put("device", 5)
    credentials.drop("nobody")
    assert heard == []
    credentials.put("device", 6)
    assert heard == [1]
    credentials.drop("device", "nobody")
    assert heard == [1, 2]
    credentials.drop("device")
    assert heard == [1, 2]


@pytest.mark.spec("B3")
def test_what_a_credential_made_counts_in_its_own_epoch() -> None:
    credentials = Credentials()
    credentials.put("device", 5)
    made, job = CredentialRef("device", 5), CredentialRef("device")

    assert credentials.stands([made, job])
    assert credentials.epoch_of("device") == 5
    assert credentials.next_epoch("device", 3) == 6
    assert credentials.next_epoch("device", 9) == 9
    assert credentials.next_epoch("new", 3) == 3
    credentials.put("device", 6)
    assert (credentials.stands([made]), credentials.stands([job])) == (False, True)
    assert credentials.lasts([made])
    with pytest.raises(CredentialEnded):
        credentials.require(Authority(made_by=frozenset({made})))
    credentials.require(Authority(made_by=frozenset({job})))
    credentials.drop("device")
    assert not credentials.lasts([made])
    assert not credentials.stands([job])
    assert (
        credentials.next_epoch("device", 3) == 7
    )  # what is gone does not come back as its successor
