#!/bin/sh
# The daemon itself runs out of the sight of the board's programs; this tells its version.
[ "$1" = -v ] || { echo "hdcd: already running" >&2; exit 1; }
param get const.hdc.version
