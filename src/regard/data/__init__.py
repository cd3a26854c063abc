"""Text, tokenizers and batches: everything between a file and the tensors a model sees."""
