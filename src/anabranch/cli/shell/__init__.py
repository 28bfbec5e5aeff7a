"""`anabranch shell`."""
