"""Public checkpoints: folders in Hugging Face layout, read and written.

hub.py         hf:OWNER/NAME, fetched
folder.py      where the weights lie in such a folder, and how to read them safely
tensors.py     their tensors as ours and back, by the table each model file ends with
tokenizing.py  their tokenizers
building.py    our model with their weights in it
bert.py, gpt2.py, marian.py, vit.py   what each family's checkpoints say beyond that
opening.py     from a folder to its verbs
"""
