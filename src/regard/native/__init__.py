"""Kernels of our own for a few rows at a time, in C, compiled where there is a compiler. Nothing needs them.

`few_rows` has them as functions of tensors; `compiled` makes and finds the library; `kernels.c` is what it is made of.
"""
