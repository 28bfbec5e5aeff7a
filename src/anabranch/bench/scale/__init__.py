"""`anabranch bench scale`."""
