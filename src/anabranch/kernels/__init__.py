"""Physical operators: vectorised steps over batches, and their traces."""
