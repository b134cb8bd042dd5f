"""Mutation tests: small faults in a copy of the project, one at a time, and the tests that should detect them."""
