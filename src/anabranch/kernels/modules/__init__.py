"""User operators over windows of the time axis."""
