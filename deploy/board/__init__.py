"""What a board is: the protocol, its profile, its scripts, and what it says of itself."""
