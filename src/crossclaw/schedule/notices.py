"""Notices: messages for an agent's main session, read at once or by the next run.

A notice that waits is a run that ends in the step that accepts it: its words enter the transcript, and the same
notice twice is one.
"""

from typing import Literal

from crossclaw.config import Config
from crossclaw.domain.errors import Invalid
from crossclaw.domain.jobs import ACK_CHARS_MAX, WakeMode
from crossclaw.domain.messages import Provenance
from crossclaw.domain.runs import RunPlan
from crossclaw.door.registry import Caller
from crossclaw.schedule.lengths import WORDS_CHARS_MAX
from crossclaw.sessions.arrivals import Arrival, RequestId
from crossclaw.sessions.intake import Intake

NOTICE_CHARS_MAX = 2_000  # of a run's reply, told to the main session; the whole is in its own

NoticeRoad = Literal["notice", "hook wake", "node"]


class Notices:
    def __init__(self, config: Config, intake: Intake) -> None:
        self._config = config
        self._intake = intake

    async def give(
        self,
        text: str,
        mode: WakeMode,
        road: NoticeRoad,
        provenance: Provenance,
        caller: Caller,
        request: RequestId | None = None,
    ) -> None:
        """Durable on return. A run in the default agent's main session answers it, or its next one reads it; the reply goes
        where that session was last talked to."""
        if len(text) > WORDS_CHARS_MAX:
            raise Invalid(f"text has at most {WORDS_CHARS_MAX} characters, not {len(text)}")
        await self._intake.require(
            Arrival(
                road=road,
                to=self._config.main_key(self._config.agents.default_id),
                text=text,
                origin=provenance,
                caller=caller,
                request=request,
                plan=RunPlan(ack_chars_max=ACK_CHARS_MAX),
                replies_to_last=True,
                waits=mode != "now",
            )
        )
