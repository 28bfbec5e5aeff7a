"""`anabranch bench merge`."""
