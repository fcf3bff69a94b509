"""Package indexes and releases: which wheels exist, which fit, and which releases a user's words name."""
