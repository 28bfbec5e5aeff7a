"""Scalar expressions over the columns of one row."""
