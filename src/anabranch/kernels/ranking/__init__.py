"""Positions of rows in an order, at every instant."""
