"""The host without a sandbox: programs run as the gateway's own user, in the workspace, with few
variables."""

from collections.abc import Mapping
from pathlib import Path

from crossclaw.sandbox.contract import WorkPlace, Wrapped
from crossclaw.sandbox.environment import host_environment


class Host:
    name = "host"

    def __init__(self, environ: Mapping[str, str], pass_env: tuple[str, ...] = ()) -> None:
        self._environ = host_environment(environ, pass_env)

    def wrap(self, place: WorkPlace, command: str, folder: str) -> Wrapped:
        return Wrapped((shell(), "-c", command), self._environ, place.folder / folder)


def shell() -> str:
    return "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"
