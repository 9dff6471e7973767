"""`plugins`, as far as plugins reach for it."""
