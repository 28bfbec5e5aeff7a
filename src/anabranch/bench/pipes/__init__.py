"""`anabranch bench pipes`."""
