"""From syntax trees to plans."""
