"""`anabranch bench migration`."""
