"""`plugins.context_engine`, as far as plugins reach for it."""
