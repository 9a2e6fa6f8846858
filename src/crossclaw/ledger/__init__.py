"""The ledger: the one place where everything durable is stored, in one transaction a step."""

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
    "monitoring",
    "moving",
    "openclaw",
    "opening",
    "operations",
    "pieces",
    "shared_settings",
    "sqlite",
]
