#!/bin/sh
# param get [KEY], param set KEY VALUE, param ls: system parameters. What is set lasts as long as the disk does.
set_here=/data/.emulator-param
all() {
  [ ! -f $set_here ] || cat $set_here
  cat /etc/param.txt
}
find_value() {
  all | while IFS= read -r line; do
    case $line in "$1 = "*) echo "${line#"$1 = "}"; break ;; esac
  done
}
case $1 in
  get)
    if [ -z "$2" ]; then all | sort -u -k1,1; exit; fi
    value=$(find_value "$2")
    if [ -n "$value" ]; then echo "$value"; else echo "Get parameter \"$2\" fail! errNum is:106!"; fi ;;
  set)
    [ $# -eq 3 ] || { echo "Set parameter failed"; exit 1; }
    case $2 in const.*) [ -z "$(find_value "$2")" ] || { echo "Set parameter $2 $3 fail! errNum is:112!"; exit 0; } ;; esac
    old=$(grep -v "^$2 = " $set_here 2>/dev/null)
    { echo "$2 = $3"; [ -z "$old" ] || echo "$old"; } >$set_here.new && mv $set_here.new $set_here
    echo "Set parameter $2 $3 success" ;;
  ls)
    all | sort -u -k1,1 ;;
  *)
    echo "param [ ls | get | set ]" ;;
esac
