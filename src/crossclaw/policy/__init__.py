"""Policy: pure decisions that say why. Log, tool and page show the same reason."""
