"""The index of an archive: which pieces of a source came in which batch, and of what time."""
