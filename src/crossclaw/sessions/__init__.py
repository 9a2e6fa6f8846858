"""Sessions: what can be done to one. Channels, tools and methods are doors to the same few verbs."""
