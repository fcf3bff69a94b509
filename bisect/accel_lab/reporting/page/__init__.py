"""HTML pages and pictures: the report, the benchmark, the matrix, the comparison of two runs."""
