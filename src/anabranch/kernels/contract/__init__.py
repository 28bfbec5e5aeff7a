"""What every kernel keeps to: steps over batches and traces, keys, routing, exchange."""
