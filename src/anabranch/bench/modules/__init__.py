"""`anabranch bench modules`."""
