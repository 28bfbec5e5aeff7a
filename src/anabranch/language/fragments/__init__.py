"""Pieces of SQL that the methods of streams take."""
