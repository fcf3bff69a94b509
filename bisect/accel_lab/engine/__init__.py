"""Jobs on an existing cluster: packed under a content hash, run by the usual command, fetched back."""
