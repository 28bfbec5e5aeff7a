"""One right stream out of several copies that differ physically."""
