"""Windows over rows: the last n, and sessions."""
