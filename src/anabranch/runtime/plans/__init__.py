"""What is said of a plan before it runs: whether it can, and how."""
