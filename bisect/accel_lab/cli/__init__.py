"""The command line; the only part of the lab that prints or exits."""
