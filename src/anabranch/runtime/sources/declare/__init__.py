"""What users declare of a source, and what is found in it."""
