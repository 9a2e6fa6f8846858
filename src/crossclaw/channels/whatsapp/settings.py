"""One WhatsApp number in openclaw.json: `channels.whatsapp`, or one of its `accounts`."""

from crossclaw.config.channels import ChannelSettings
from crossclaw.config.section import Section, names
from crossclaw.domain.secret import Secret

API_VERSION = "v23.0"


class WhatsAppTemplate(Section, frozen=True):
    """A message that Meta has approved, for people who have not written for 24 hours."""

    name: str
    """The template's name at Meta."""
    language: str = "en"
    """The template's language there, such as `en_US`."""


class WhatsAppCloud(Section, frozen=True):
    """The Cloud API. OpenClaw has no such keys; the variables beside them leave a file good for both."""

    phone_number_id: str | None = None
    """Meta's id of the number; or `WHATSAPP_PHONE_NUMBER_ID`."""
    access_token: Secret | None = None
    """A token with the right `whatsapp_business_messaging`; or `WHATSAPP_ACCESS_TOKEN`."""
    app_secret: Secret | None = None
    """The secret with which Meta signs what it sends; or `WHATSAPP_APP_SECRET`."""
    verify_token: Secret | None = None
    """The verify token: any text, the same as is entered at Meta; or `WHATSAPP_VERIFY_TOKEN`."""
    api_version: str = API_VERSION
    """The version of the Graph API."""
    template: WhatsAppTemplate | None = None
    """A template that is sent, with the reply as its one variable, to people who have not written for 24
    hours; without it such replies fail."""


class WhatsAppAck(Section, frozen=True):
    emoji: str | None = None
    """The reaction shown under a message that is being answered."""
    direct: bool = True
    """Whether direct messages get it."""
    unused = names("group")


class WhatsAppSettings(ChannelSettings, frozen=True):
    cloud: WhatsAppCloud = WhatsAppCloud()
    """How the Cloud API is reached."""
    send_read_receipts: bool = True
    """Whether people see that their message was read."""
    ack_reaction: WhatsAppAck | None = None
    """WhatsApp's own acknowledgement; `messages.ackReaction` has no effect here."""
    auth_dir: str | None = None
    """No effect: it belongs to a linked phone, which this release does not speak."""
    idle = ChannelSettings.idle | names("authDir")
    unused = ChannelSettings.unused | names(
        "selfChatMode messagePrefix debounceMs web pluginHooks exposeErrorText"
    )

    @property
    def own_ack(self) -> str | None:
        ack = self.ack_reaction
        return (ack.emoji if ack and ack.direct else None) or ""

    @property
    def is_set_up(self) -> bool:
        cloud = self.cloud
        return bool(
            cloud.phone_number_id and cloud.access_token and cloud.app_secret and cloud.verify_token
        )

    @property
    def what_is_missing(self) -> str:
        cloud = self.cloud
        wanted = {
            "WHATSAPP_PHONE_NUMBER_ID": cloud.phone_number_id,
            "WHATSAPP_ACCESS_TOKEN": cloud.access_token,
            "WHATSAPP_APP_SECRET": cloud.app_secret,
            "WHATSAPP_VERIFY_TOKEN": cloud.verify_token,
        }
        missing = [name for name, value in wanted.items() if not value]
        if len(missing) == len(wanted):
            return (
                "this section is for a linked phone (QR code), as OpenClaw has it. Crossclaw speaks WhatsApp's Cloud API, "
                f"which needs a business number at Meta: set {', '.join(missing)}; docs/channels.md says how"
            )
        return f"set {', '.join(missing)}, or the same under channels.whatsapp.cloud"
