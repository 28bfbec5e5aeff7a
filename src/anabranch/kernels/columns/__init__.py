"""Arithmetic over whole columns, with numpy and with compiled loops."""
