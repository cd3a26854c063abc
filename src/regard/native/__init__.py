"""Our own kernels for a few rows, 8 bits and attention, in C, compiled where there is a compiler, needed nowhere.

`kernels` has them as functions of tensors; `compiled` makes the library of the files in C, and finds it again.
"""
