"""Models, behind one contract: messages in, one assistant message out, words told as they come."""
