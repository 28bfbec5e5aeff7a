"""Files, logs and Delta tables as sources: listed, cut into units, planned, read."""
