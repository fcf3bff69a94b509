"""Sentences: findings, comparisons, measurements and the matrix in words."""
