"""What several commands share, and the lists of samples that came with the package."""
