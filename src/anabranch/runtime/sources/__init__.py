"""Where rows come from, and what they promise."""
