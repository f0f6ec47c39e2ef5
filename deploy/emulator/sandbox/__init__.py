"""The sandbox in which an emulated board lives, and the root file system that programs see there."""
