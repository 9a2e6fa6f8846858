"""Tools: what a model may call. One file a tool; the contract beside them."""
