"""Level sets and environments of a configuration, and the collector of batches."""
