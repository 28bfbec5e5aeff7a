"""Modules that come with the system, each as an example to read."""
