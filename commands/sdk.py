"""``invoke sdk.*``: the ohos-sdk."""
