"""What a query keeps on disk: folders, versions of state, layout, control stream."""
