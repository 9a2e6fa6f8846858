"""submit: a message into a gateway that is open in this process, by the road that clients take."""

from crossclaw import app
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import Provenance
from crossclaw.domain.runs import RunPlan
from crossclaw.door.principal import person_principal
from crossclaw.door.registry import Caller
from crossclaw.sessions.arrivals import Accepted, Arrival, RequestId, SessionNamed

OWNER = person_principal("owner", {"operator.admin"})


async def submit(
    gateway: app.Gateway,
    key: SessionKey,
    text: str,
    *,
    run_id: str | None = None,
    timeout_ms: int | None = None,
) -> Accepted:
    """As the method `agent` does it. On return the message is durable. With a run id of the caller's the same
    call twice is one run, and another message under that id is refused."""
    received = await gateway.intake.require(
        Arrival(
            road="agent",
            to=SessionNamed(key.with_agent),
            text=text,
            origin=Provenance("person"),
            caller=Caller(principal=OWNER),
            request=(run_id and RequestId(id=run_id, words=("agent", text))) or None,
            run_id=run_id,
            plan=RunPlan(timeout_ms=timeout_ms),
        )
    )
    assert isinstance(received, Accepted)
    return received
