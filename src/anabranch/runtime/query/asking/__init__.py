"""What a run is asked for while it runs, and afterwards: its answers, its state, its end."""
