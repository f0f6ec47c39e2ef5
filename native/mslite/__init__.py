"""mslite, the program that runs MindSpore Lite models: its recipe and sources, and what its end means."""
