"""The commands. The only place of the lab that prints or exits."""
