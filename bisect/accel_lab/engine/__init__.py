"""Jobs on a cluster that exists: packed under their content hash, run by the usual command, fetched back."""
