"""The first rows in an order, at every instant."""
