"""Tools, as far as plugins reach for them."""
