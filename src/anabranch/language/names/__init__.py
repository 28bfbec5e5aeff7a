"""Which names a query may use, and what they mean."""
