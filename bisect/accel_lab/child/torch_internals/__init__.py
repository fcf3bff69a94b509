"""All that depends on a torch release, picked by feature: the only place that names what is private to torch.

One module a subsystem of torch; each function says which file of torch it relies on. Checked on torch 2.5.1
to 2.14.1. torch is imported in the functions: a cold run imports these modules while torch is half imported.
"""
