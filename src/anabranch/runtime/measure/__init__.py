"""Statistics of a running query: rows, selectivities, state and seconds of its operators."""
