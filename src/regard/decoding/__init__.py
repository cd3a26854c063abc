"""From a model that scores the next token to whole sentences: greedy, sampling, beam search."""
