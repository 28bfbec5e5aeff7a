"""What a stream has in common with a DataFrame: columns, names of methods, how it looks."""
