"""WhatsApp, by Meta's Cloud API: a business number, messages by webhook, replies within 24 hours."""
