"""What agents choose when a choice has a price: tests of frozen agents."""
