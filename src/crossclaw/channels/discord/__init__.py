"""Discord, by its REST API and its gateway socket: direct messages, server channels, threads, group chats."""
