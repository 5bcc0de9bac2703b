"""What protocols on a tree share: who is near, and which way leads to whom."""
