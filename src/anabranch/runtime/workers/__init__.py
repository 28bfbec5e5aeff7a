"""What a worker does in a batch: read, judge, step, store, send."""
