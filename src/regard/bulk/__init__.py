"""Bulk inference: a verb over a Parquet corpus of any size, on this machine or on a Ray cluster, restartable.

files     Parquet here or elsewhere, read by rows and written whole
parts     the corpus cut into numbered parts, each of which becomes one file; which of them are done
work      what is done to a part, the same on every engine; answers has the verbs
plain     one part after the other, in this process
on_ray    many at once, by model actors of Ray Data; attempts counts how often each was begun
verb      what the command line calls
"""
