"""The drivers of all channels that come with the gateway."""

from tests.channels.discord.driver import DiscordDriver
from tests.channels.driving import ChannelDriver
from tests.channels.imessage.driver import IMessageDriver
from tests.channels.matrix.driver import MatrixDriver
from tests.channels.signal.driver import SignalDriver
from tests.channels.slack.driver import SlackDriver
from tests.channels.telegram.driver import TelegramDriver
from tests.channels.whatsapp.driver import WhatsAppDriver

DRIVERS: tuple[type[ChannelDriver], ...] = (
    TelegramDriver,
    DiscordDriver,
    SignalDriver,
    WhatsAppDriver,
    IMessageDriver,
    MatrixDriver,
    SlackDriver,
)
