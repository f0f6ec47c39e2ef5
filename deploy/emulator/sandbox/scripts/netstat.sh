#!/bin/sh
# A socket of none of the board's programs is the daemon's, whose process they do not see.
case $* in
  -*p*) toybox netstat "$@" | sed -E "s|(LISTEN\|ESTABLISHED) +- *\$|\1      $(pidof hdcd)/hdcd|" ;;
  *) exec toybox netstat "$@" ;;
esac
