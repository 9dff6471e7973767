"""Where secrets may come from."""
