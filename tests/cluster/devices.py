"""A device that somebody has approved, as the ledger keeps it."""

from crossclaw.domain.credentials import Credential, DeviceDescription


def device_of_an_owner() -> Credential:
    return Credential(
        credential_id="device:x:operator",
        kind="device",
        subject="x",
        role="operator",
        scopes=("operator.admin",),
        epoch=7,
        created_at=1,
        particulars=DeviceDescription(public_key="k"),
    )
