"""The archive of what a query has read: an index by time, and copies of rows that would vanish."""
