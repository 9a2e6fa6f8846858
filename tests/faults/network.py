"""A network of our own: each gateway in a namespace, one bridge to the server. Needs root and `ip`; Linux only."""

import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager

SERVER_IP = "10.77.0.1"
NETWORK = "10.77.0.0/24"


class NoNetwork(Exception):
    pass


def _run(*command: str, check: bool = True) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise NoNetwork(f"{' '.join(command)}: {done.stderr.strip()}")


class Link:
    """A gateway's cable."""

    def __init__(self, number: int, bridge: str) -> None:
        self.space = f"{bridge}-{number}"
        self._outer, inner = f"{bridge}o{number}", f"{bridge}i{number}"
        _run("ip", "netns", "add", self.space)
        _run("ip", "link", "add", self._outer, "type", "veth", "peer", "name", inner)
        _run("ip", "link", "set", self._outer, "master", bridge, "up")
        _run("ip", "link", "set", inner, "netns", self.space)
        self._inside("ip", "addr", "add", f"10.77.0.{10 + number}/24", "dev", inner)
        self._inside("ip", "link", "set", inner, "up")
        self._inside("ip", "link", "set", "lo", "up")

    def _inside(self, *command: str) -> None:
        _run("ip", "netns", "exec", self.space, *command)

    def command(self, *command: str) -> list[str]:
        return ["ip", "netns", "exec", self.space, *command]

    def cut(self, how: str) -> None:
        """`cut`: both ways; `deaf`: nothing arrives; `mute`: nothing leaves. Nobody is told of it."""
        if how in ("cut", "deaf"):
            self._inside("iptables", "-A", "INPUT", "-s", SERVER_IP, "-j", "DROP")
        if how in ("cut", "mute"):
            self._inside("iptables", "-A", "OUTPUT", "-d", SERVER_IP, "-j", "DROP")

    def heal(self) -> None:
        self._inside("iptables", "-F")

    def close(self) -> None:
        _run("ip", "netns", "del", self.space, check=False)
        _run("ip", "link", "del", self._outer, check=False)


@contextmanager
def network(count: int) -> Generator[list[Link]]:
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("iptables"):
        raise NoNetwork("the rig makes networks of its own: it needs root, ip and iptables")
    bridge = f"cc{os.getpid() % 100_000}"
    links: list[Link] = []
    try:
        _run("ip", "link", "add", bridge, "type", "bridge")
        _run("ip", "addr", "add", f"{SERVER_IP}/24", "dev", bridge)
        _run("ip", "link", "set", bridge, "up")
        links += [Link(number, bridge) for number in range(count)]
        yield links
    finally:
        for link in links:
            link.close()
        _run("ip", "link", "del", bridge, check=False)
