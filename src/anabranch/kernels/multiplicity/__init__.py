"""How often payloads hold: distinct, union, difference and intersection."""
