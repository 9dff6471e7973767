"""`gateway.platforms`, as far as plugins reach for it."""
