"""Is a run locked in? By its session's settings, or because whoever caused it is."""

from crossclaw.config.agents import Sandbox
from crossclaw.domain.authority import Authority
from crossclaw.domain.keys import SessionKey
from crossclaw.policy.decision import Decision


def decide_sandbox(settings: Sandbox, key: SessionKey, authority: Authority) -> Decision:
    """`allowed` means: it runs inside the sandbox."""
    if authority.sandboxed:
        return Decision(True, "whoever caused this run is sandboxed")
    if settings.mode == "all":
        return Decision(True, "sandbox.mode is all")
    if settings.mode == "non-main" and key.kind != "main":
        return Decision(True, "sandbox.mode is non-main, and this is not the main session")
    return Decision(False, f"sandbox.mode is {settings.mode}")
