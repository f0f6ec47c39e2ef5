"""Components of an OpenHarmony source tree: checked, built with its own ``build.sh``, their libraries collected."""
