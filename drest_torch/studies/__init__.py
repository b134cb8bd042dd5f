"""Studies: their runs, the rows measured from the runs, and the figures, tables and claims made from the rows."""
