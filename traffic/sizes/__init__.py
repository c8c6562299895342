"""How large flows are: distributions and the random numbers behind them."""
