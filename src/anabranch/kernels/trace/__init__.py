"""What kernels remember: sorted runs, timelines and events, and how to search them."""
