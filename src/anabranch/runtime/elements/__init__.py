"""The forms in which rows leave a process: parcels, element tables, event tables."""
