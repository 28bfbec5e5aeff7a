"""Kernels that give the same payloads other lifetimes."""
