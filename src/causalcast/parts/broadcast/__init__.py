"""What broadcasts that send everything to everybody share."""
