"""Our own kernels for a few rows at a time and for 8 bits, in C, compiled where there is a compiler, needed nowhere.

`kernels` has them as functions of tensors; `compiled` makes and finds the library; `kernels.c` is what it is made of.
"""
