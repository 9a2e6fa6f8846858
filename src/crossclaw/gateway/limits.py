"""Limits: every number of the wire in one place, each with its reason."""

import msgspec

KIB = 1024
MIB = 1024 * KIB


class GatewayLimits(msgspec.Struct, frozen=True, kw_only=True):
    # ── before somebody is known ───────────────────────────────────────────────────────────────
    strangers_max: int = 1024
    """Unauthenticated connections; for one more the oldest goes. At about 20 KiB each this is 20 MiB at worst."""
    strangers_share: float = 0.25
    """The largest share of the open files of the process that unauthenticated connections may have: the rest is
    kept for authenticated clients, and for the ledger."""
    strangers_per_address_max: int = 256
    """Unauthenticated connections of one address. A program may open hundreds of connections at once on its own machine; each
    is authenticated within milliseconds. More that stay unknown are no client of ours."""
    stranger_time_s: float = 15.0
    """The time from accept to authenticated, whatever happens between: the headers' time and the handshake's
    together."""
    accepts_at_once: int = 8
    """Connections accepted in one turn of the loop; the others wait in the kernel while known clients are
    served. An honest client shows its secret within a few turns, long before so few at a time have pushed it
    out."""
    header_bytes_max: int = 64 * KIB
    """Browsers send the cookies of every program on localhost; 16 KiB has been seen."""
    header_time_s: float = 5.0
    """The time for the line and the headers of a request: they are one packet, and only an attacker needs longer."""
    handshake_time_s: float = 10.0
    """OpenClaw's own; its clients answer the challenge within a second."""
    stranger_read_bytes: int = 4 * KIB
    """Bytes taken from an unauthenticated socket in one turn of the loop: everything in it is parsed at once,
    and the smallest frame has six bytes. A `connect` comes in one or two."""
    stranger_pings_max: int = 16
    """Pings of an unauthenticated connection until it is cut off: pings are for connections that live."""
    handshake_bytes_max: int = 16 * KIB
    """A `connect` with a signed device has about 1.2 KiB; one with long lists of commands 8."""

    # ── guesses at a secret ────────────────────────────────────────────────────────────────────
    pause_s_first: float = 0.05
    """The delay before a wrong secret is answered; each further one of the same address waits twice as long."""
    pause_s_max: float = 1.0
    """A program with an old token that comes back every second costs nothing and learns it in time."""
    pauses_max: int = 64
    """Wrong secrets that wait at once; beyond, the connection is dropped. Each holds a socket and a
    task, and nobody honest has so many."""
    pauses_per_address_max: int = 32
    """Wrong secrets of one address that wait at once, so that one guesser does not take the answers of the others."""
    guesses_forgotten_s: float = 60.0
    """The time without another wrong secret after which an address begins with the short pause again."""
    addresses_max: int = 4096
    """Addresses remembered with their wrong guesses; the longest silent one is forgotten first."""
    secret_chars_min: int = 32
    """The shortest secret that may be used beyond loopback: 128 bits even when written in hexadecimal."""

    # ── a known client ─────────────────────────────────────────────────────────────────────────
    payload_bytes_max_3: int = 512 * KIB
    """The largest frame of protocol 3: what OpenClaw accepts and its clients expect."""
    payload_bytes_max_4: int = 25 * MIB
    """The largest frame of protocol 4: several pictures of 5 MB in base64."""
    buffered_bytes_max_3: int = 1536 * KIB
    buffered_bytes_max_4: int = 16 * MIB
    """What may wait for a client that reads slowly. A whole history of 6 MiB fits twice; OpenClaw's
    50 MiB would let twenty stuck clients take a gigabyte."""
    dropping_share: float = 0.25
    """The share of the buffer from which on events that the next one replaces are left out."""
    read_bytes: int = 64 * KIB
    """Bytes taken from a client's socket in one turn of the loop, so that nobody waits for 40,000 tiny frames."""
    fragments_max: int = 4096
    """Fragments of one message. Browsers cut a large one into pieces of some 100 KiB."""
    requests_at_once: int = 2048
    """Open requests of one connection. One client may carry a thousand sessions, each with a request that
    waits for its second answer; a task is about 8 KiB."""
    refusals: int = 1000
    """Refused requests in a row before the connection is closed: a program that cannot be helped
    would fill the audit and the log. One that tries every method once stays below."""
    refusal_refill_s: float = 0.05
    subscriptions_max: int = 10_000
    """Sessions one connection may listen to, one by one; more is `sessions.subscribe`."""
    followed_runs_max: int = 10_000
    """Runs one connection may follow; the oldest are forgotten. An open one has ended long before."""
    runs_published_max: int = 100_000
    """Runs whose events are counted at once; far more than can be in flight."""

    # ── time on the wire ───────────────────────────────────────────────────────────────────────
    tick_s: float = 30.0
    """Clients close after twice this time without a tick."""
    health_s: float = 60.0
    presence_s: float = 1.0
    """The time between two `presence` events: a thousand clients that come back at once are one."""
    presence_entries_max: int = 100
    """The newest clients that `presence` lists; a page cannot show more, and every hello carries the list."""
    piece_s: float = 0.05
    """The time between two `assistant` events of a run. Each repeats the whole text so far, so sending every
    token would cost the square of a reply's length."""
    delta_s: float = 0.15
    """The time between two `chat` deltas of a run: OpenClaw's pace."""
    ping_s: float = 60.0
    """The time between two pings, which find peers that vanished; 10,000 connections make 167 pings a second."""
    ping_answer_s: float = 30.0
    pongs_bytes_max: int = 512 * KIB
    """Answers to pings that nobody reads. They are never more than a few bytes to an honest client,
    but they follow what else it has not read."""
    close_s: float = 2.0
    """The time for a close to be answered; then the socket is cut."""
    last_close_s: float = 0.5
    """The time for a close to be answered when the gateway itself closes, which as a whole takes less than two seconds."""
    finish_s: float = 0.25
    """The time for requests that are nearly done when the gateway closes. What waits longer is cut off, and
    can be asked again."""

    # ── HTTP ───────────────────────────────────────────────────────────────────────────────────
    pipelined_max: int = 16
    """Requests behind one that is not answered yet. Clients that send ahead at all send a few."""
    body_bytes_max: int = 2 * MIB
    """The largest body where a route does not say its own: a tool's arguments. OpenClaw's number."""
    body_time_s: float = 20.0
    """The time for the whole body. 2 MiB in 20 s is 1 Mbit/s."""
    unsigned_bytes_max: int = 64 * MIB
    """Memory for all webhooks' bodies together that are being read or checked; platforms send again what
    found no room."""
    unsigned_small_bytes: int = 64 * KIB
    """A body up to here always finds room: nearly every message of a platform is so small."""

    # ── tool events ────────────────────────────────────────────────────────────────────────────
    tool_text_chars_max: int = 8000
    """The longest text of a tool's arguments in an event: it is a sign of progress, the transcript has it all."""

    def payload_bytes_max(self, protocol: int) -> int:
        return self.payload_bytes_max_3 if protocol == 3 else self.payload_bytes_max_4

    def buffered_bytes_max(self, protocol: int) -> int:
        return self.buffered_bytes_max_3 if protocol == 3 else self.buffered_bytes_max_4
