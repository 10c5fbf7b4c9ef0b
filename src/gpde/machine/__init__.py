"""What a program shares with others on its machine: cores, memory, the clock, and the user's Ctrl-C."""
