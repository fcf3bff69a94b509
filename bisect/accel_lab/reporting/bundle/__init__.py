"""bundle.zip: what goes in, how it is written, checked and run again."""
