"""The change that moved a failure: pieces of torch's Python sources, mixed from two releases."""
