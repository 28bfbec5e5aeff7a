"""Kernels without memory."""
