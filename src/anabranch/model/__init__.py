"""Events, lifetimes, stable points, columnar batches and logical streams."""
