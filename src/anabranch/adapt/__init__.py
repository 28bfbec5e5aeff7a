"""Watch a running query, price other plans, decide to migrate."""
