#!/bin/sh
# The board's own kernel and machine, not those of the computer that emulates it.
{ IFS= read -r host; IFS= read -r release; IFS= read -r build; IFS= read -r machine; } </etc/uname.txt
s= n= r= v= m= o=
while [ $# -gt 0 ]; do
  case $1 in
    --all) set -- "$1" -a ;;
    --*) echo "uname: unknown option '$1'" >&2; exit 1 ;;
    -*)
      case ${1#-} in *[!asnrvmop]*|'') echo "uname: bad option '$1'" >&2; exit 1 ;; esac
      case $1 in *a*) s=1 n=1 r=1 v=1 m=1 o=1 ;; esac
      case $1 in *s*) s=1 ;; esac
      case $1 in *n*) n=1 ;; esac
      case $1 in *r*) r=1 ;; esac
      case $1 in *v*) v=1 ;; esac
      case $1 in *m*|*p*) m=1 ;; esac
      case $1 in *o*) o=1 ;; esac ;;
    *) echo "uname: Unknown argument '$1'" >&2; exit 1 ;;
  esac
  shift
done
out=
[ -n "$s$n$r$v$m$o" ] || s=1
[ -z "$s" ] || out="$out Linux"
[ -z "$n" ] || out="$out $host"
[ -z "$r" ] || out="$out $release"
[ -z "$v" ] || out="$out $build"
[ -z "$m" ] || out="$out $machine"
[ -z "$o" ] || out="$out Toybox"
echo "${out# }"
