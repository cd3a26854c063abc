"""What a model is for: the losses, the measures and the verbs a user calls."""
