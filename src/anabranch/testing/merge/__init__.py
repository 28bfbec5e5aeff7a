"""The reference implementation of merging, one element at a time."""
