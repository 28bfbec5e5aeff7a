"""Named benchmarks, each beside a peer measured in the same run; and the demo."""
