"""Neighbours: the other gateways on the same ledger, as far as the ledger does not tell: who is connected to
them, and a way to ask them for what only they can do, because a device or a chat account is theirs.

Nothing of this is stored. The list of a neighbour's clients is forgotten with the link to it, and a question
whose neighbour is gone ends with an error; it is never repeated.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import anyio
import msgspec

from crossclaw.domain.aliases import Callback
from crossclaw.domain.errors import CrossclawError
from crossclaw.domain.keys import SessionKey
from crossclaw.ledger.gateways import SharingGateway

T = TypeVar("T")

ASK_S = 20.0  # for an answer that takes no person's yes


class ConnectedClients(msgspec.Struct, frozen=True, kw_only=True):
    """The clients of one gateway, as the other gateways get them."""

    presence: Sequence[dict[str, Any]] = ()
    nodes: Sequence[dict[str, Any]] = ()
    """Its nodes as `node.list` shows them."""
    devices: Sequence[str] = ()
    guests: Sequence[str] = ()
    """Sessions whose guests call there."""


class Neighbour:
    """Another gateway, as long as its lease runs."""

    def __init__(self, facts: SharingGateway) -> None:
        self.facts = facts
        self.clients = ConnectedClients()
        self.asks: set[anyio.CancelScope] = set()

    @property
    def name(self) -> str:
        return self.facts.gateway_id


class NeighbourUnreached(CrossclawError):
    """The neighbour was not reached: nothing was done."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"gateway {name} cannot be reached, so nothing was done: {why}")


class NeighbourLost(CrossclawError):
    """The neighbour was asked, and the outcome is unknown."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(
            f"gateway {name} was asked and did not answer, so it is not known whether it was done: {why}"
        )


class NeighbourRefused(CrossclawError):
    """The neighbour answered with an error; it has that one's code and details."""

    def __init__(self, refusal: "AskRefusal") -> None:
        super().__init__(refusal.message)
        self.code = refusal.code
        self.retryable = refusal.retryable
        if refusal.details is not None:
            self.details = refusal.details


class AskRefusal(msgspec.Struct, frozen=True):
    code: str
    message: str
    retryable: bool = False
    details: dict[str, Any] | None = None


class AskQuestion(msgspec.Struct, frozen=True):
    kind: str
    body: Any = None


class AskAnswer(msgspec.Struct, frozen=True):
    result: Any = None
    refusal: AskRefusal | None = None


Ask = Callable[[Neighbour, bytes, float], Awaitable[bytes]]
"""Carries a question to a neighbour and its answer back, within so many seconds."""
AnswerQuestion = Callable[[Any], Awaitable[Any]]
H = TypeVar("H", bound=Callable[..., Awaitable[Any]])
_MARK = "__answers__"


def answers(kind: str) -> Callable[[H], H]:
    """Marks a handler, `async def …(self, asked)`: it answers the questions of this kind that neighbours ask."""

    def mark(handler: H) -> H:
        setattr(handler, _MARK, kind)
        return handler

    return mark


def answers_of(*services: object) -> dict[str, AnswerQuestion]:
    """The marked handlers of these objects, by the kind of question."""
    return {
        kind: getattr(service, name)
        for service in services
        for name, value in vars(type(service)).items()
        if (kind := getattr(value, _MARK, None)) is not None
    }


async def _no_way(neighbour: Neighbour, _question: bytes, _timeout_s: float) -> bytes:
    raise NeighbourUnreached(neighbour.name, "this gateway has no links")


class Neighbours:
    """The other gateways; empty for a gateway that has its ledger for itself."""

    def __init__(self) -> None:
        self._known: dict[str, Neighbour] = {}
        self._answers: Mapping[str, AnswerQuestion] = {}
        self._carry: Ask = _no_way
        self._own_clients: Callable[[], ConnectedClients] = ConnectedClients
        self._on_others: list[Callback] = []
        self._on_own: dict[int, Callback] = {}
        self._answering: set[anyio.CancelScope] = set()
        self.is_closed = False
        """Whether this gateway closes: its links end, and open questions to it stay without an answer."""

    # ── who is connected ───────────────────────────────────────────────────────────────────────

    def settle(self, others: Iterable[SharingGateway]) -> None:
        """Replaces the list of neighbours by those whose lease runs now."""
        found = {each.incarnation: each for each in others}
        for gone in self._known.keys() - found.keys():
            neighbour = self._known.pop(gone)
            for scope in neighbour.asks:
                scope.cancel()
            self._tell(neighbour, ConnectedClients())
        for incarnation, facts in found.items():
            if (known := self._known.get(incarnation)) is None:
                self._known[incarnation] = Neighbour(facts)
            else:
                known.facts = facts

    def note_clients(self, incarnation: str, clients: ConnectedClients) -> None:
        """Takes the list of a neighbour's clients; empty when the link to it has ended."""
        if (neighbour := self._known.get(incarnation)) is not None:
            self._tell(neighbour, clients)

    def _tell(self, neighbour: Neighbour, clients: ConnectedClients) -> None:
        if neighbour.clients != clients:
            neighbour.clients = clients
            for each in self._on_others:
                each()

    def listen_to_others(self, listener: Callback) -> None:
        """Called after a neighbour's clients have changed."""
        self._on_others.append(listener)

    def __iter__(self) -> Iterator[Neighbour]:
        return iter(list(self._known.values()))

    def presence(self) -> list[dict[str, Any]]:
        return [_named(entry, each) for each in self for entry in each.clients.presence]

    def nodes(self) -> dict[str, tuple[Neighbour, dict[str, Any]]]:
        """Devices that are connected elsewhere: where, and as they are described there."""
        return {node["nodeId"]: (each, node) for each in self for node in each.clients.nodes}

    def devices(self) -> set[str]:
        return {device_id for each in self for device_id in each.clients.devices}

    def has_guest(self, key: SessionKey) -> bool:
        return any(key.text in each.clients.guests for each in self)

    def find_holder(self, role: str) -> Neighbour | None:
        return next((each for each in self if role in each.facts.roles), None)

    # ── telling the others ─────────────────────────────────────────────────────────────────────

    def begin_telling(self, own_clients: Callable[[], ConnectedClients]) -> None:
        """Tells the others from now on who is connected here."""
        self._own_clients = own_clients

    def own_clients(self) -> ConnectedClients:
        return self._own_clients()

    def own_changed(self) -> None:
        for each in list(self._on_own.values()):
            each()

    def listen(self, listener: Callback) -> Callback:
        """Calls `listener` when clients of this gateway come or go. Returns a function that ends it."""
        self._on_own[id(listener)] = listener

        def end() -> None:
            self._on_own.pop(id(listener), None)

        return end

    # ── asking ─────────────────────────────────────────────────────────────────────────────────

    def begin_answering(self, answers: Mapping[str, AnswerQuestion]) -> None:
        """Who answers from now on, by the kind of question."""
        self._answers = answers

    def begin_asking(self, carry: Ask) -> None:
        """Takes the links, by which others can be asked from now on."""
        self._carry = carry

    def close(self) -> None:
        self.is_closed = True
        self.own_changed()
        for scope in self._answering:
            scope.cancel()

    async def answer_one(self, question: bytes) -> bytes | None:
        """Answers a neighbour's question; None: this gateway closes, and the outcome is unknown."""
        parsed = msgspec.json.decode(question, type=AskQuestion)
        with anyio.CancelScope() as answering:
            self._answering.add(answering)
            try:
                return await self._answered(parsed)
            finally:
                self._answering.discard(answering)
        return None

    async def _answered(self, question: AskQuestion) -> bytes:
        handler = self._answers.get(question.kind)
        try:
            if handler is None:
                raise CrossclawError(
                    f"this gateway does not know requests of the kind {question.kind!r}"
                )
            answer = AskAnswer(await handler(question.body))
        except CrossclawError as error:
            details = getattr(error, "details", None)
            answer = AskAnswer(None, AskRefusal(error.code, str(error), error.retryable, details))
        return msgspec.json.encode(answer)

    async def ask(
        self, neighbour: Neighbour, kind: str, body: Any, result: type[T], timeout_s: float = ASK_S
    ) -> T:
        """Asks a neighbour, once. `NeighbourUnreached`: nothing was done; `NeighbourLost`: the outcome is unknown."""
        question = msgspec.json.encode(AskQuestion(kind, body))
        said: bytes | None = None
        with anyio.CancelScope() as asking:
            neighbour.asks.add(asking)
            try:
                said = await self._carry(neighbour, question, timeout_s)
            finally:
                neighbour.asks.discard(asking)
        if said is None:
            raise NeighbourLost(neighbour.name, "it has ended meanwhile")
        answer = msgspec.json.decode(said, type=AskAnswer)
        if answer.refusal is not None:
            raise NeighbourRefused(answer.refusal)
        return msgspec.convert(answer.result, result)


def _named(entry: Mapping[str, Any], neighbour: Neighbour) -> dict[str, Any]:
    """The entry with the neighbour's name: a gateway lists itself without one."""
    if entry.get("reason") != "self":
        return dict(entry)
    name = neighbour.name
    text = f"Gateway {name}: crossclaw {entry.get('version', '')}".rstrip()
    return {**entry, "host": name, "reason": "shares the ledger", "text": text}


def read_clients(body: Any) -> ConnectedClients:
    return msgspec.convert(body, ConnectedClients)
