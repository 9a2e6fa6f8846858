"""Credentials in force: which of them still open the gateway, and in which epoch.

Whatever was begun by one carries its id and epoch in its authority (`made_by`). This is the one place that says
whether that still counts; it is asked at every dispatch, claim, tool call, model call, tick and delivery, and
by everything that stays open. All are held in memory: asking costs nothing.
"""

from collections.abc import Iterable

from crossclaw.domain.aliases import Callback
from crossclaw.domain.authority import Authority, CredentialRef
from crossclaw.domain.errors import CredentialEnded

ENDED = "the credential that this came by was revoked, removed or changed"


class Credentials:
    def __init__(self) -> None:
        self._epochs: dict[str, int] = {}
        self._latest: dict[str, int] = {}
        """The latest epochs, also of credentials that are gone: what one of them made must not count for its
        successor."""
        self._listeners: list[Callback] = []
        self.ended = 0
        """How often a credential has ended: as long as it stays the same, what was valid still is."""

    def put(self, credential_id: str, epoch: int) -> None:
        """Puts a credential in force in this epoch. What it made in an older one does not count any more."""
        before = self._epochs.get(credential_id)
        self._epochs[credential_id] = self._latest[credential_id] = epoch
        if before not in (None, epoch):
            self._tell()

    def drop(self, *credential_ids: str) -> None:
        """Drops credentials that were revoked or removed."""
        gone = [each for each in credential_ids if self._epochs.pop(each, None) is not None]
        if gone:
            self._tell()

    def next_epoch(self, credential_id: str, now_ms: int) -> int:
        """An epoch that the credential never had: the time, or later."""
        return max(now_ms, self._latest.get(credential_id, 0) + 1)

    def listen(self, listener: Callback) -> None:
        """Registers a listener that is called after a credential has ended, to end at once what stays open by it."""
        self._listeners.append(listener)

    def _tell(self) -> None:
        self.ended += 1
        for listener in self._listeners:
            listener()

    def epoch_of(self, credential_id: str) -> int | None:
        return self._epochs.get(credential_id)

    def stands(self, made_by: Iterable[CredentialRef]) -> bool:
        """Whether all of them count. What was made without a credential always does."""
        return all(self._counts(maker) for maker in made_by)

    def lasts(self, made_by: Iterable[CredentialRef]) -> bool:
        """Whether all of them still exist, in any epoch: so long a job goes on."""
        return all(maker.credential_id in self._epochs for maker in made_by)

    def _counts(self, maker: CredentialRef) -> bool:
        epoch = self._epochs.get(maker.credential_id)
        return epoch is not None and maker.epoch in (None, epoch)

    def require(self, authority: Authority) -> None:
        if not self.stands(authority.made_by):
            raise CredentialEnded(ENDED)
