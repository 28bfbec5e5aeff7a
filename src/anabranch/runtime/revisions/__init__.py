"""Corrections of the past of a running query: received, replayed, written into its output."""
