"""Studies: lists of runs, where they run, and what is drawn and tabulated from them."""
