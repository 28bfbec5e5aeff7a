"""The figures of all benchmarks: what they shall reach, and one page with all of them."""
