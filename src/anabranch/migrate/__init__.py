"""Swap the plan of a running query without losing or repeating output."""
