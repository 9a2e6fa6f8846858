"""Findings: what the verdict has against a gateway.

lost     acknowledged, and its message, its run's good end, its reply or its delivery is missing
doubled  more than once in the transcript, in the world outside, or in a chat
torn     half written: holes, files that differ from the ledger, words that search does not find
order    one client's messages in another order than it sent them
stuck    not over in time
untrue   somebody was told what is not so
trouble  the gateway complained, refused, or ended by itself
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

Kind = Literal["lost", "doubled", "torn", "order", "stuck", "untrue", "trouble"]
KINDS: tuple[Kind, ...] = ("lost", "doubled", "torn", "order", "stuck", "untrue", "trouble")


class Finding(NamedTuple):
    kind: Kind
    text: str


Findings = Iterator[Finding]
