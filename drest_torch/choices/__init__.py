"""Tests of trained agents' choices between options that differ in length, coins and price."""
