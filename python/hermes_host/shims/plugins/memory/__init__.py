"""`plugins.memory`, as far as plugins reach for it."""
