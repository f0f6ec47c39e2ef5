#!/bin/sh
# The board's log: /data/log/hilog/hilog.log, one entry a line as the real hilog prints it
# (MM-DD hh:mm:ss.mmm  PID  TID LEVEL DOMAIN/TAG: TEXT).
log=/data/log/hilog/hilog.log
[ -f $log ] || : >>$log
leave= tail= levels= tags= domain= head= pids= expression=
while [ $# -gt 0 ]; do
  option=$1 value=
  case $1 in
    -x|--exit) leave=1; shift; continue ;;
    -r) : >$log; echo "Log type core,app,only_prerelease buffer clear successfully"; exit ;;
    -h|--help) echo "Usage: hilog [-x] [-r] [-a LINES] [-z LINES] [-L LEVELS] [-T TAGS] [-D DOMAINS] [-P PIDS] [-e TEXT] [-t TYPE] [-v FORMAT]"; exit ;;
    --level=*|--tag=*|--domain=*|--pid=*|--head=*|--tail=*|--regex=*) value=${1#*=}; option=${1%%=*}; shift ;;
    -[aezLTDPtvbgGQ]) value=$2; shift; [ $# -eq 0 ] || shift ;;
    -[aezLTDPtv]*) option=${1%"${1#-?}"}; value=${1#-?}; shift ;;
    *) echo "Invalid parameter: $1"; exit 1 ;;
  esac
  case $option in
    -L|--level) levels=$value ;;
    -T|--tag) tags=$value ;;
    -D|--domain) domain=$value ;;
    -P|--pid) pids=$value ;;
    -e|--regex) expression=$value ;;
    -a|--head) head=$value leave=1 ;;
    -z|--tail) tail=$value leave=1 ;;
    -v)
      case $value in
        color|colour|epoch|monotonic|msec|nsec|time|usec|wrap|year|zone) ;;
        *) echo "Invalid argument: $value"; exit 1 ;;
      esac ;;
    -b|-g|-G|-Q) exit 0 ;;
  esac
done
one_of() { echo "$1" | sed 's/,/|/g'; }
choose() {
  grep -E "^[^ ]+ [^ ]+ +($( [ -n "$pids" ] && one_of "$pids" || echo '[0-9]+' )) +[0-9]+ ($( [ -n "$levels" ] && one_of "$levels" || echo '[DIWEF]' )) ($( [ -n "$domain" ] && one_of "$domain" || echo '[^/ ]*' ))/($( [ -n "$tags" ] && one_of "$tags" || echo '[^:]*' )): .*$expression"
}
if [ -n "$leave" ]; then
  if [ -n "$head" ]; then choose <$log | head -n "$head"
  elif [ -n "$tail" ]; then choose <$log | tail -n "$tail"
  else choose <$log; fi
else
  # In the background, so that the shell can end the others when the daemon ends it.
  trap 'trap - TERM; kill -TERM 0' TERM
  tail -n +1 -f $log | choose &
  wait
fi
