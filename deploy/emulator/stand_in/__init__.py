"""The hdc stand-in: a command, and the server that it plays, in front of emulated boards."""
