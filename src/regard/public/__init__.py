"""Public checkpoints: folders in Hugging Face layout, read and written.

folder.py    where the weights lie in such a folder, and how to read them safely
tensors.py   their tensors as ours and back, by the table each model file ends with
"""
