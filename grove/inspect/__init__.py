"""What people are told of the sets in a cluster: the tree, the status, why something is not ready. Objects in, text and
plain data out; no I/O, no clock.
"""
