"""What both ends of hdc's protocol share: frames, file transfers, forwarded ports, keys, and what releases say."""
