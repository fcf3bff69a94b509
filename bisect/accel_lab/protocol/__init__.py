"""What the lab and its child agree on: rungs, switches, fact keys and the job.

Python 3.8, standard library only, nothing of the lab: it is copied along with the child, whose interpreter
may be as old as torch 2.0's.
"""
