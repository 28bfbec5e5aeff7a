"""The query language: text, names, binding."""
