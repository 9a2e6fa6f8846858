"""The house, put together: built from the ground up, then served. The only room that knows all others.

parts     what the building stands on, its storeys, and the whole
settings  what the config tells each room
building  storey by storey, in the order of the imports
serving   where control comes back up: lanes are told who executes, channels who receives
"""

from crossclaw.app.parts import House, Outside
from crossclaw.app.serving import build_gateway, open_house, run_gateway

__all__ = [
    "House",
    "Outside",
    "build_gateway",
    "model_settings",
    "open_house",
    "run_gateway",
]
