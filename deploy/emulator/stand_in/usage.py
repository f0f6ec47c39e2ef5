"""What the stand-in says of its own use."""

USAGE = """\
hdc stand-in for emulated OpenHarmony boards

hdc [-t KEY] [-s [IP:]PORT] [-l 0-6] [-p] COMMAND
  -v, version, -h, help [verbose]       this version, this text
  list targets [-v]                     boards
  wait                                  until a board is connected
  tconn KEY [-remove]                   connect a board over TCP
  shell [COMMAND]                       run a command on the board
  file send|recv [-a|-z|-m|-sync] FROM TO
  install [OPTIONS] PACKAGE|FOLDER...   hand packages to the board's bundle manager
  uninstall [OPTIONS] BUNDLE            likewise
  fport LOCAL REMOTE, rport REMOTE LOCAL, fport ls, fport rm LOCAL REMOTE
  hilog                                 the board's log
  target mount, target boot, smode, tmode usb|port [N]
  jpid, track-jpid, bugreport           programs that can be debugged, a report
  reconnect KEY                         take up a USB board again
  start [-r], kill [-r], checkserver
  keygen FILE                           Generate public/private key: FILE and FILE.pub
"""
"""The real hdc prints a text of its own here."""
VERBOSE = """
-m [-s [IP:]PORT] [-e IP]               be the server; -e: where forwarded ports are listened at
any, wait, discover, tconn              further commands of the server
OHOS_HDC_SERVER_PORT                    port of the server
OHOS_HDC_HEARTBEAT, OHOS_HDC_LOG_LEVEL, OHOS_HDC_ENCRYPT_CHANNEL
                                        known to the real hdc, without effect here
"""
