"""Who a node is, whom it believes, and what others may do."""
