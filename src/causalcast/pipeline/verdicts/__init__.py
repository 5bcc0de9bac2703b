"""What findings mean: the verdict, its counter-examples, and what is likely behind them."""
