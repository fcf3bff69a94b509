"""bundle.zip: its content, and how it is written, checked and run again."""
