"""Slack, by its Web API and Socket Mode or signed events over HTTP: direct messages, channels, threads, group chats."""
