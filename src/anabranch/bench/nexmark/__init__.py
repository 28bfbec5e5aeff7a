"""`anabranch bench nexmark`."""
