"""Gateway: where it listens, whom it lets in, what it serves."""

from typing import Annotated, Literal

import msgspec

from crossclaw.config.section import Count, Loose, Positive, Section, names
from crossclaw.domain.secret import Secret

Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]


class Auth(Section, frozen=True):
    mode: Literal["token", "password", "none", "trusted-proxy"] = "token"
    token: Secret | None = None
    password: Secret | None = None
    unused = names("allowTailscale rateLimit trustedProxy")


class ControlUi(Section, frozen=True):
    enabled: bool = True
    base_path: str = "/"
    allowed_origins: tuple[str, ...] = ()
    allow_insecure_auth: bool = False
    dangerously_disable_device_auth: bool = False
    unused = names(
        "root embedSandbox allowExternalEmbedUrls dangerouslyAllowHostHeaderOriginFallback"
        " chatMessageMaxWidth"
    )


class Endpoint(Section, frozen=True):
    enabled: bool = True
    max_body_bytes: Positive | None = None
    unused = names("images files maxImageParts maxTotalImageBytes maxUrlParts")


class Endpoints(Section, frozen=True):
    chat_completions: Endpoint = Endpoint()
    responses: Endpoint = Endpoint()


class Http(Section, frozen=True):
    endpoints: Endpoints = Endpoints()
    unused = names("securityHeaders")


class Tls(Section, frozen=True):
    enabled: bool = False
    auto_generate: bool = True
    cert_path: str | None = None
    key_path: str | None = None
    ca_path: str | None = None


class Remote(Section, frozen=True):
    url: str | None = None
    token: Secret | None = None
    password: Secret | None = None
    tls_fingerprint: str | None = None
    unused = names("transport sshTarget sshIdentity enabled remotePort")


class Reload(Section, frozen=True):
    mode: Literal["off", "restart", "hot", "hybrid"] = "hybrid"
    debounce_ms: Count = 300
    deferral_timeout_ms: Count = 300_000


class HttpTools(Section, frozen=True):
    """Tools taken from or given back to `/tools/invoke`."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class Gateway(Section, frozen=True):
    mode: Literal["local", "remote"] = "local"
    port: Port = 18_789
    bind: Literal["loopback", "lan", "tailnet", "auto", "custom"] = "loopback"
    custom_bind_host: str | None = None
    auth: Auth = Auth()
    control_ui: ControlUi = ControlUi()
    http: Http = Http()
    trusted_proxies: tuple[str, ...] = ()
    tls: Tls = Tls()
    remote: Remote = Remote()
    reload: Reload = Reload()
    tools: HttpTools = HttpTools()
    nodes: Loose = msgspec.field(default_factory=Loose)
    unused = names(
        "tailscale push webchat allowRealIpFallback channelHealthCheckMinutes"
        " channelStaleEventThresholdMinutes channelMaxRestartsPerHour handshakeTimeoutMs terminal"
    )
