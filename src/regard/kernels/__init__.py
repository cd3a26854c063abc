"""Kernels in C for small products, int8, attention and the GRU, used where torch has nothing as fast.

`ops` calls them, after checking every argument; `build` compiles them and chooses the variant for the processor;
`reference` has the same functions in plain torch.
"""
