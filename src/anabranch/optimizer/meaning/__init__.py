"""Plans that mean the same, whatever their text."""
