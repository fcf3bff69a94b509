"""The command line. The only place of the lab that prints or exits."""
