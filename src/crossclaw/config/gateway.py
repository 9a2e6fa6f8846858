"""Gateway: its address, who may connect, and what it serves."""

from typing import Annotated, Literal

import msgspec

from crossclaw.config.section import Count, Section, names
from crossclaw.domain.aliases import Positive
from crossclaw.domain.secret import Secret

Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]


class GatewayAuth(Section, frozen=True):
    mode: Literal["token", "password", "none", "trusted-proxy"] = "token"
    """What opens the gateway; the token always does, and `password` lets a password do so too."""
    token: Secret | None = None
    """The token; unset: one is made and kept in `credentials/gateway-token`."""
    password: Secret | None = None
    """The password of mode `password`."""
    unused = names("allowTailscale rateLimit trustedProxy")


class ControlUi(Section, frozen=True):
    enabled: bool = True
    """Whether the page is served."""
    base_path: str = "/"
    """The path at which the page is served."""
    allowed_origins: tuple[str, ...] = ()
    """Pages of other origins that may connect."""
    allow_insecure_auth: bool = False
    """No effect."""
    dangerously_disable_device_auth: bool = False
    """No effect."""
    local = names("root")
    idle = names("allowInsecureAuth dangerouslyDisableDeviceAuth")
    unused = names(
        "root embedSandbox allowExternalEmbedUrls dangerouslyAllowHostHeaderOriginFallback"
        " chatMessageMaxWidth"
    )


class EndpointConfig(Section, frozen=True):
    enabled: bool = True
    """Whether the endpoint is served."""
    max_body_bytes: Positive | None = None
    """The largest request."""
    unused = names("images files maxImageParts maxTotalImageBytes maxUrlParts")


class Endpoints(Section, frozen=True):
    chat_completions: EndpointConfig = EndpointConfig()
    """`/v1/chat/completions`."""
    responses: EndpointConfig = EndpointConfig()
    """`/v1/responses`."""


class Http(Section, frozen=True):
    endpoints: Endpoints = Endpoints()
    """OpenAI's interface."""
    unused = names("securityHeaders")


class Tls(Section, frozen=True):
    enabled: bool = False
    """Whether the gateway speaks TLS: `https://` and `wss://`, and nothing else; see [operations](operations.md)."""
    auto_generate: bool = True
    """Whether a certificate is made and kept where there is none."""
    cert_path: str | None = None
    """The certificate, in PEM; unset: `gateway/tls/gateway-cert.pem` of the state folder."""
    key_path: str | None = None
    """The certificate's private key, in PEM, without a passphrase; unset: `gateway/tls/gateway-key.pem` of
    the state folder."""
    ca_path: str | None = None
    """Certificates of the authority, sent along where `certPath` holds the gateway's own only."""
    local = names("certPath keyPath caPath")


class Remote(Section, frozen=True):
    url: str | None = None
    """The gateway's address for the command line in mode `remote`."""
    token: Secret | None = None
    """The token for that gateway."""
    password: Secret | None = None
    """The password for that gateway."""
    tls_fingerprint: str | None = None
    """The sha256 fingerprint of that gateway's certificate: exactly that one is trusted; unset: one that an
    authority vouches for."""
    unused = names("transport sshTarget sshIdentity enabled remotePort")


class Reload(Section, frozen=True):
    mode: Literal["off", "restart", "hot", "hybrid"] = "hybrid"
    """`off`: a changed file waits for the next start; the others are the same here."""
    debounce_ms: Count = 300
    """How long a file must be still before it is read."""
    deferral_timeout_ms: Count = 300_000
    """How long a change waits for runs that are under way."""


class HttpTools(Section, frozen=True):
    """Tools taken from or given back to `/tools/invoke`."""

    allow: tuple[str, ...] = ()
    """Tools given back."""
    deny: tuple[str, ...] = ()
    """Tools taken away."""


class NodeCommands(Section, frozen=True):
    deny_commands: tuple[str, ...] = ()
    """Commands that no node is asked for, whatever it offers."""
    sessions: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Sessions that a node, named by its id, gets events of and speaks in beside its own; see
    [visibility](visibility.md)."""
    unused = names("allowCommands browser")


class GuestsConfig(Section, frozen=True):
    sessions: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Sessions that an MCP guest, by its name (`*`: every guest), sees beside itself and who has sent to it;
    `*`: all that a session of the default agent sees."""


class GatewayConfig(Section, frozen=True):
    mode: Literal["local", "remote"] = "local"
    """`remote`: the command line asks a gateway elsewhere."""
    port: Port = 18_789
    """The port that it listens at."""
    bind: Literal["loopback", "lan", "tailnet", "auto", "custom"] = "loopback"
    """The address it listens at: this machine only, the network, or `customBindHost`."""
    custom_bind_host: str | None = None
    """The address of `bind: custom`."""
    auth: GatewayAuth = GatewayAuth()
    """Who may come in."""
    control_ui: ControlUi = ControlUi()
    """The page."""
    http: Http = Http()
    """What is served over HTTP."""
    trusted_proxies: tuple[str, ...] = ()
    """Proxies that are trusted to name the client's address."""
    tls: Tls = Tls()
    """Encrypted connections."""
    remote: Remote = Remote()
    """A gateway elsewhere, for the command line."""
    reload: Reload = Reload()
    """How a changed file is taken over."""
    tools: HttpTools = HttpTools()
    """Tools over `/tools/invoke`."""
    nodes: NodeCommands = NodeCommands()
    """What nodes may be asked, and what they see."""
    guests: GuestsConfig = GuestsConfig()
    """What MCP guests see."""
    trust_group: bool = False
    """Whether members of a group may write the state folder and the config, as on a mounted volume; they can
    then do all that the owner can."""
    local = names("bind customBindHost trustedProxies trustGroup")
    unused = names(
        "tailscale push webchat allowRealIpFallback channelHealthCheckMinutes"
        " channelStaleEventThresholdMinutes channelMaxRestartsPerHour handshakeTimeoutMs terminal"
    )
