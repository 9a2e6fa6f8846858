"""submit: sends a message into a gateway that is open in this process, as clients do."""

from typing import Any

from crossclaw import app
from crossclaw.domain.keys import SessionKey
from crossclaw.door.principal import person_principal
from crossclaw.door.registry import Caller, TwoAnswers
from crossclaw.gateway.methods.runs import AgentResult

OWNER = person_principal("owner", {"operator.admin"})


async def submit(
    gateway: app.Gateway,
    key: SessionKey,
    text: str,
    *,
    run_id: str | None = None,
    timeout_s: int | None = None,
) -> AgentResult:
    """Calls the method `agent`, and returns its first answer: the message is durable. With a run id of the caller's
    the same call twice is one run, and another message under that id is refused."""
    asked: dict[str, Any] = {
        "message": text,
        "sessionKey": key.with_agent,
        "idempotencyKey": run_id or gateway.context.ids.new(),
    }
    if timeout_s is not None:
        asked["timeout"] = timeout_s
    answers: TwoAnswers[AgentResult] = await gateway.door.dispatch(
        Caller(principal=OWNER), "agent", asked
    )
    return answers.first
