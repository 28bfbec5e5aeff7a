"""One aggregate function per file; the table reads them all."""
