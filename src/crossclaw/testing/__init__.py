"""Test doubles that ship with the gateway: its own tests use them, and yours may."""

from crossclaw.testing.channel import OPEN_TO_ALL, MemoryChannel
from crossclaw.testing.fake_models import FakeModelServer
from crossclaw.testing.gateway import open_gateway
from crossclaw.testing.scripted import ScriptedProvider, instructions_of, message_texts
from crossclaw.testing.submitting import submit
from crossclaw.testing.time import VirtualClock, VirtualLoop

__all__ = [
    "OPEN_TO_ALL",
    "FakeModelServer",
    "MemoryChannel",
    "ScriptedProvider",
    "VirtualClock",
    "VirtualLoop",
    "instructions_of",
    "message_texts",
    "open_gateway",
    "submit",
]
