"""SDKs, arches, CPU tunings, and the rendering of toolchain files."""
