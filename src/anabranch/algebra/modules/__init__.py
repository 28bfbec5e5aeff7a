"""Windows on the time axis and the user operators that answer for them."""
