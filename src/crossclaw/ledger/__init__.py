"""The ledger: the one place of truth. Everything durable changes here, one transaction a step."""

__all__ = [
    "agreed",
    "approvals",
    "attention",
    "channels",
    "contract",
    "figures",
    "forking",
    "gateways",
    "hints",
    "imports",
    "jobs",
    "media",
    "moving",
    "openclaw",
    "opening",
    "operations",
    "pieces",
    "shared_settings",
    "sqlite",
    "watching",
]
