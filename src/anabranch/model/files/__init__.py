"""Stream files: JSON lines and Parquet."""
