"""A network between a gateway and its database: every byte arrives later. A process of its own: `python -m bench.delaying`."""

import socket
import sys
import threading
import time
from queue import SimpleQueue

CHUNK_BYTES = 1 << 16


def forward(source: socket.socket, target: socket.socket, delay_s: float) -> None:
    """Forwards bytes after the delay, in their order; the next piece may be on its way meanwhile."""
    on_their_way: SimpleQueue[tuple[float, bytes]] = SimpleQueue()

    def deliver() -> None:
        while True:
            at, data = on_their_way.get()
            time.sleep(max(0.0, at - time.perf_counter()))
            try:
                if not data:
                    target.shutdown(socket.SHUT_WR)
                    return
                target.sendall(data)
            except OSError:
                return

    threading.Thread(target=deliver, daemon=True).start()
    data = b"-"
    while data:
        try:
            data = source.recv(CHUNK_BYTES)
        except OSError:
            data = b""
        on_their_way.put((time.perf_counter() + delay_s, data))


def serve(port: int, one_way_s: float) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    while True:
        near, _ = listening.accept()
        far = socket.create_connection(("127.0.0.1", port))
        for each in (near, far):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for pair in ((near, far), (far, near)):
            threading.Thread(target=forward, args=(*pair, one_way_s), daemon=True).start()


if __name__ == "__main__":
    serve(int(sys.argv[1]), float(sys.argv[2]))
