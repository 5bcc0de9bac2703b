"""What protocols share that send a publication to the members of its group alone."""
