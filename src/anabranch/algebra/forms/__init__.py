"""Nodes that write the same snapshots in another form."""
