"""Functions, aggregates and operators that users bring, and the contract they write to."""
