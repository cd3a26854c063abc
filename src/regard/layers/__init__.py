"""The parts models are made of: positions, dropout, transformer blocks."""
