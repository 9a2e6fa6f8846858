"""A network of our own: each gateway and each server in a namespace, one bridge between them. Needs root and `ip`; Linux only."""

import itertools
import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from typing import NamedTuple

_networks = itertools.count()


class NoNetwork(Exception):
    pass


def _run(*command: str, check: bool = True) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise NoNetwork(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


class Link:
    """A machine's cable."""

    def __init__(self, bridge: str, address: str) -> None:
        number = address.rpartition(".")[2]
        self.space, self.address = f"{bridge}-{number}", address
        self._outer, self._inner = f"{bridge}o{number}", f"{bridge}i{number}"
        _run("ip", "netns", "add", self.space)
        _run("ip", "link", "add", self._outer, "type", "veth", "peer", "name", self._inner)
        _run("ip", "link", "set", self._outer, "master", bridge, "up")
        _run("ip", "link", "set", self._inner, "netns", self.space)
        self.add_address(address)
        self.inside("ip", "link", "set", self._inner, "up")
        self.inside("ip", "link", "set", "lo", "up")

    def inside(self, *command: str, check: bool = True) -> str:
        return _run(*self.command(*command), check=check)

    def command(self, *command: str) -> list[str]:
        return ["ip", "netns", "exec", self.space, *command]

    def add_address(self, address: str) -> None:
        self.inside("ip", "addr", "add", f"{address}/24", "dev", self._inner)

    def drop_address(self, address: str) -> None:
        self.inside("ip", "addr", "del", f"{address}/24", "dev", self._inner, check=False)

    def forget_neighbours(self) -> None:
        """As a machine does that has heard that an address has moved."""
        self.inside("ip", "neigh", "flush", "all")

    def buffer_little(self) -> None:
        """From now on a connection takes some kilobytes, and then the next only when the other side has read them."""
        for name in ("tcp_wmem", "tcp_rmem"):
            self.inside("sysctl", "-q", "-w", f"net.ipv4.{name}=4096 16384 32768")

    def cut(self, how: str, *, port: int | None = None) -> None:
        """`cut`: both ways; `deaf`: nothing arrives; `mute`: nothing leaves. Nobody is told of it. With a port, one
        connection alone."""
        if how in ("cut", "deaf"):
            only = ("-p", "tcp", "--dport", str(port)) if port else ("!", "-i", "lo")
            self.inside("iptables", "-w", "-A", "INPUT", *only, "-j", "DROP")
        if how in ("cut", "mute"):
            only = ("-p", "tcp", "--sport", str(port)) if port else ("!", "-o", "lo")
            self.inside("iptables", "-w", "-A", "OUTPUT", *only, "-j", "DROP")

    def break_connection(self, port: int) -> None:
        """Only this end of it hears of that."""
        self.cut("cut", port=port)
        self.inside("ss", "-K", "sport", "=", f":{port}")

    def heal(self) -> None:
        self.inside("iptables", "-w", "-F")

    def close(self) -> None:
        _run("ip", "netns", "del", self.space, check=False)
        _run("ip", "link", "del", self._outer, check=False)


class Network(NamedTuple):
    gateways: list[Link]
    servers: list[Link]
    shared_address: str
    """Of whichever server is the primary."""
    addresses: str
    """All of them, as PostgreSQL writes a network."""


@contextmanager
def network(gateways: int, servers: int) -> Generator[Network]:
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("iptables"):
        raise NoNetwork("the rig makes networks of its own: it needs root, ip and iptables")
    number = next(_networks)
    bridge, base = f"cc{os.getpid() % 10_000}x{number}", f"10.77.{(os.getpid() + number) % 250}"
    links: list[Link] = []
    try:
        _run("ip", "link", "add", bridge, "type", "bridge")
        _run("ip", "addr", "add", f"{base}.254/24", "dev", bridge)
        _run("ip", "link", "set", bridge, "up")
        for last in (*range(1, 1 + servers), *range(10, 10 + gateways)):
            links.append(Link(bridge, f"{base}.{last}"))
        yield Network(links[servers:], links[:servers], f"{base}.9", f"{base}.0/24")
    finally:
        for link in links:
            link.close()
        _run("ip", "link", "del", bridge, check=False)
