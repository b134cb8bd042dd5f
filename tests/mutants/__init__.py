"""Small faults, put into a copy of the project one at a time, and the tests that should notice them."""
