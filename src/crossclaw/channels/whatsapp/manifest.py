"""What is known about WhatsApp without a connection."""

import re

from crossclaw.channels.manifest import ChannelManifest, Rate, Target, Traits
from crossclaw.channels.whatsapp.settings import WhatsAppSettings

_PREFIX = re.compile(r"(?:whatsapp|wa|user|dm):", re.I)
_PERSON = re.compile(r"(\+?\d{5,15})(?::\d+)?(?:@(?:s\.whatsapp\.net|c\.us))?", re.I)


def normalize_sender(entry: str) -> str | None:
    """A telephone number with its country, as `+4917…`. The suffixes of a linked phone's ids are cut off; an `@lid` id
    is no number."""
    text = entry.strip()
    while found := _PREFIX.match(text):
        text = text[found.end() :].strip()
    text = re.sub(r"(?<=[\d)])[ ().-]+(?=[\d(])", "", text).replace("(", "").replace(")", "")
    found = _PERSON.fullmatch(text)
    return f"+{found[1].lstrip('+')}" if found and not found[1].startswith("0") else None


def read_target(text: str) -> Target | None:
    """Parses a number in any usual spelling, also after `whatsapp:`. Groups cannot be reached by the Cloud API."""
    number = normalize_sender(text)
    return Target(number, None, ("direct",)) if number else None


MANIFEST = ChannelManifest(
    name="whatsapp",
    title="WhatsApp",
    settings=WhatsAppSettings,
    open="crossclaw.channels.whatsapp.account:open_account",
    environ={
        "WHATSAPP_PHONE_NUMBER_ID": "cloud.phoneNumberId",
        "WHATSAPP_ACCESS_TOKEN": "cloud.accessToken",
        "WHATSAPP_APP_SECRET": "cloud.appSecret",
        "WHATSAPP_VERIFY_TOKEN": "cloud.verifyToken",
    },
    traits=Traits(
        dialect="whatsapp",
        text_limit=4_096,
        caption_limit=1_024,
        media_max_mb=50.0,
        files=True,
        typing_every_s=20.0,
        reactions=True,
        replies=True,
        webhook="/whatsapp-webhook",
        rate=Rate(80, 1.0),
        # One message in six seconds to one person, with some ahead: beyond, error 131056.
        chat_rate=Rate(5, 30.0),
        id_label="WhatsApp number",
    ),
    chat_shapes=(
        (r".+@g\.us", ("group",)),
        (r".+@newsletter", ("channel",)),
        (r".+@(s\.whatsapp\.net|c\.us|lid)", ("direct",)),
    ),
    read_target=read_target,
    normalize_sender=normalize_sender,
)
