"""Telegram, by the Bot API: long polling or a webhook, one bot an account."""
