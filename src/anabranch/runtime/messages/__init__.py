"""What workers and the driver tell each other: frozen records, each with one codec."""
