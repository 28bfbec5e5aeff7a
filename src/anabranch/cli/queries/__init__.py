"""Commands about running queries."""
