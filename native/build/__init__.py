"""From a recipe and a toolchain to an artifact."""
