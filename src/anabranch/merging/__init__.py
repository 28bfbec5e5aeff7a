"""Logical merge at work: files, processes and queries that are copies of each other."""
