"""iMessage, by a BlueBubbles server on a Mac: REST for sending and catching up, a webhook for what is new."""
