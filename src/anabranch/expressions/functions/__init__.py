"""Scalar functions that give the same in Spark and in DuckDB, each with its DuckDB text."""
