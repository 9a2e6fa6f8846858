"""The sandbox: do this session's files and programs stay in one?"""

from crossclaw.config.agents import Sandbox
from crossclaw.domain.authority import Authority
from crossclaw.domain.keys import SessionKey
from crossclaw.policy.decision import Decision


def decide_sandbox(settings: Sandbox, key: SessionKey, authority: Authority) -> Decision:
    """`allowed` says that the session is sandboxed. What came from a sandboxed session stays so,
    whatever the mode: authority only shrinks."""
    if authority.sandboxed:
        return Decision(True, "it acts for a sandboxed session")
    if settings.mode == "non-main":
        is_main = key.kind == "main"
        which = "the main session" if is_main else "not the main session"
        return Decision(not is_main, f"sandbox.mode is non-main, and this is {which}")
    return Decision(settings.mode == "all", f"sandbox.mode is {settings.mode}")
