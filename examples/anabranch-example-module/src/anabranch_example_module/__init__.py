"""Modules for Anabranch in a package of their own."""
