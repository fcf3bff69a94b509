"""Puts results into sentences: findings, comparisons, measurements and the matrix."""
