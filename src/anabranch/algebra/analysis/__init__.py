"""What can be told of a plan by looking at it."""
