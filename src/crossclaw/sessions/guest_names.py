"""Guests' names: each belongs to one credential, and nobody else receives what is sent to it.

A guest may have a token of its own, made for its name. A client that comes with another credential (a device's
token, or the gateway's) holds the names that it was the first to use.
"""

import secrets
from collections.abc import Collection

from crossclaw.domain.authority import Authority
from crossclaw.domain.clock import Clock
from crossclaw.domain.credentials import Credential, DeviceDescription
from crossclaw.domain.errors import Busy, Fenced, Forbidden, Invalid, NotFound
from crossclaw.domain.secret import Secret
from crossclaw.door.held_credentials import HeldCredentials
from crossclaw.door.principal import Principal
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import DeleteCredential, PutCredential
from crossclaw.policy.credentials import Credentials

NAME_CHARS_MAX = 64  # a label's length: the name is one
GUESTS_MAX = 1_000  # held in memory; each is an agent of some program
SCOPES = ("operator.read", "operator.write")
"""What a guest's own token is good for: the session tools, as its own session."""


class GuestNames(HeldCredentials):
    def __init__(self, ledger: Ledger, credentials: Credentials, clock: Clock) -> None:
        super().__init__(ledger, credentials)
        self._clock = clock
        self._names: dict[str, Credential] = {}

    async def _load(self) -> None:
        stored = [each for each in await self._ledger.list_credentials() if each.kind == "guest"]
        gone = self._names.keys() - {each.subject for each in stored}
        self._credentials.drop(*(self._names.pop(name).credential_id for name in gone))
        for each in stored:
            self._names[each.subject] = each
            self._credentials.put(each.credential_id, each.epoch)

    @property
    def all(self) -> list[Credential]:
        return list(self._names.values())

    # ── made by the owner ──────────────────────────────────────────────────────────────────────

    async def add(self, name: str) -> Secret:
        """Makes a token for this name in place of any before; runs that those began end."""
        async with self._changing:
            name, token = guest_name(name), Secret(secrets.token_urlsafe(32))
            self._refuse_crowd(name)
            await self._put(self._credential(name, digests=(token.digest().hex(),)))
            return token

    async def remove(self, name: str) -> None:
        """Takes a guest's name away from its holder."""
        async with self._changing:
            found = self._names.get(guest_name(name))
            if found is None:
                raise NotFound(f"there is no guest {name!r}")
            await self._ledger.do(DeleteCredential(credential_id=found.credential_id))
            del self._names[found.subject]
            self._credentials.drop(found.credential_id)

    # ── asked when somebody comes ──────────────────────────────────────────────────────────────

    def find_token(self, value: str) -> Principal | None:
        """The guest whose token this is. Tokens are random, so a lookup by value reveals nothing by its timing."""
        digest = Secret(value).digest().hex()
        for each in self._names.values():
            if digest in each.digests:
                return Principal(
                    name=f"guest:{each.subject}",
                    role="operator",
                    scopes=frozenset(SCOPES),
                    sight="nothing",  # what it does, it does as its own session
                    authority=Authority(made_by=frozenset({each.ref})),
                )
        return None

    def bound_name(self, principal: Principal) -> str | None:
        """The name that the principal's token was made for."""
        ids = _ids(principal)
        found = (
            each for each in self._names.values() if each.digests and each.credential_id in ids
        )
        return next((each.subject for each in found), None)

    async def hold(self, principal: Principal, name: str) -> str:
        """The name under which somebody acts, if it is its own or still free."""
        self._credentials.require(principal.authority)
        name, ids = guest_name(name), _ids(principal)
        bound = self.bound_name(principal)
        if bound is not None:
            if bound != name:
                raise Forbidden(f"this token is for the guest {bound}, not for {name}")
            return name
        async with self._changing:
            if name not in self._names:
                await self._take(name, holder=min(ids, default=""))
            _check_holder(self._names[name], ids)
        return name

    async def _take(self, name: str, holder: str) -> None:
        """Takes a free name for this holder. If another gateway was first, its holder is loaded instead."""
        self._refuse_crowd(name)
        try:
            await self._put(self._credential(name, holder=holder))
        except Busy:
            if name not in self._names:
                raise

    def _refuse_crowd(self, name: str) -> None:
        if name not in self._names and len(self._names) >= GUESTS_MAX:
            raise Busy(f"there are {GUESTS_MAX} guests; remove some first (guests.remove)")

    def _credential(
        self, name: str, *, digests: tuple[str, ...] = (), holder: str = ""
    ) -> Credential:
        credential_id, now = f"guest:{name}", self._clock.now_ms()
        return Credential(
            credential_id=credential_id,
            kind="guest",
            subject=name,
            role="guest",
            scopes=SCOPES if digests else (),
            epoch=self._credentials.next_epoch(credential_id, now),
            created_at=now,
            particulars=DeviceDescription(public_key="", client_id=holder, display_name=name),
            digests=digests,
        )

    async def _put(self, credential: Credential) -> None:
        held = self._names.get(credential.subject)
        put = PutCredential(credential=credential, over=held.epoch if held else 0)
        try:
            await self._ledger.do(put)
        except Fenced as late:
            await self._load()
            raise Busy("this guest was changed by another gateway; try again") from late
        self._names[credential.subject] = credential
        self._credentials.put(credential.credential_id, credential.epoch)


def _check_holder(known: Credential, ids: Collection[str]) -> None:
    name = known.subject
    if known.digests:
        raise Forbidden(
            f"the guest {name} has a token of its own; come with that one, or choose another name"
        )
    if known.particulars.client_id not in (ids or {""}):
        raise Forbidden(
            f"another client is here under the name {name}; choose another one, or let the owner"
            f' free it (crossclaw gateway call guests.remove --params \'{{"name": "{name}"}}\')'
        )


def guest_name(text: str) -> str:
    """A client's name for itself, as part of a key and as a label."""
    name = "-".join(text.replace(":", " ").split())
    if not name or not name.isprintable() or len(name) > NAME_CHARS_MAX:
        raise Invalid("a guest needs a name: letters and digits, at most 64")
    return name


def _ids(principal: Principal) -> set[str]:
    return {maker.credential_id for maker in principal.authority.made_by}


def described(credential: Credential) -> dict[str, object]:
    """A guest as the owner is shown it."""
    held_by = credential.particulars.client_id
    return {
        "name": credential.subject,
        "ownToken": bool(credential.digests),
        "heldBy": held_by or None,
        "createdAtMs": credential.created_at,
    }
