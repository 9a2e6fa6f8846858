"""Roles of accounts: of several gateways that share a ledger, one keeps an account of the config, and one
acts as a bot at its platform. The second is for two accounts of the config that have one token."""

from collections.abc import Callable
from typing import Protocol
from urllib.parse import quote

import anyio

from crossclaw.channels.accounts import AccountPlace


class AccountRoles(Protocol):
    """The roles that a gateway holds; raises `StoreError` when the database cannot be reached."""

    def has(self, name: str) -> bool: ...

    async def wait_for(self, name: str) -> None:
        """Waits until this gateway holds the role."""
        ...

    async def take(self, name: str) -> bool:
        """Takes a role if it is free; returns whether this gateway holds it, since now or before."""
        ...

    async def leave(self, name: str) -> None:
        """Gives a role up: another gateway may take it."""
        ...

    async def find_holder(self, name: str) -> str | None:
        """The name of the gateway that holds a role."""
        ...


def role_of(channel: str, account_id: str) -> str:
    """The role of keeping an account, which one of several gateways holds."""
    return f"channel:{channel}:{account_id}"


def bot_role_of(channel: str, platform_id: str) -> str:
    """The role of acting as a bot. The id is the platform's, so it is quoted: lists of roles are separated by
    commas."""
    return f"bot:{channel}:{quote(platform_id, safe='@:+')}"


class BotRoles:
    """Which bots the accounts of this gateway are at their platforms."""

    def __init__(self, roles: AccountRoles) -> None:
        self._roles = roles
        self._ours: dict[AccountPlace, str] = {}
        self._turn = anyio.Lock()
        """Serialises changes: an account that is closed and one that is opened may be the same bot."""

    async def take(
        self, place: AccountPlace, platform_id: str, is_free: Callable[[], bool]
    ) -> str | None:
        """The name of the gateway that has the bot; None: nobody else. It is the account's if it `is_free` here."""
        role = bot_role_of(place[0], platform_id)
        async with self._turn:
            if not await self._roles.take(role):
                return await self._roles.find_holder(role) or "that was here before"
            if is_free():
                before = self._ours.get(place)
                self._ours[place] = role
                await self._give_back(before)
        return None

    async def leave(self, place: AccountPlace) -> None:
        with anyio.CancelScope(shield=True):  # as long as `roles` takes, which is not long
            async with self._turn:
                await self._give_back(self._ours.pop(place, None))

    async def _give_back(self, role: str | None) -> None:
        if role is not None and role not in self._ours.values():
            await self._roles.leave(role)
