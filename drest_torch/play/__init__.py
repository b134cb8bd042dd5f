"""Where policies play: level sets and environments made from a configuration, and the collector of batches."""
