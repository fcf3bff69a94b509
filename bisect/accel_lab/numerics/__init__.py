"""Numbers compared: recordings of runs, the float64 rule, tolerances. numpy only, no torch."""
