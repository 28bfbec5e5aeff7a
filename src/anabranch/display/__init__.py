"""How rows, plans and progress look to people: on a terminal, and in a notebook."""
