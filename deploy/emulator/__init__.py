"""The emulated board: a folder, a sandbox and qemu-user behind a stand-in for hdc."""
