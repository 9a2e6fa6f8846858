"""Puts the gateway together and serves it. The only room that knows all others.

parts     what is built: resources, the services of runs and of sessions, and the whole
settings  what the config says to each room
building  builds them, each after what it needs, in the order of the imports
opening   opens them; hands lanes, channels and the sweep the functions of rooms above them
"""

from crossclaw.app.leaving import Leaving
from crossclaw.app.opening import open_gateway
from crossclaw.app.parts import Gateway, GatewayInputs
from crossclaw.app.serving import build_server, run_gateway

__all__ = [
    "Gateway",
    "GatewayInputs",
    "Leaving",
    "build_server",
    "model_settings",
    "open_gateway",
    "run_gateway",
]
