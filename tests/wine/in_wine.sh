#!/bin/sh
# in_wine.sh PID PROGRAM [ARG…]: runs a program for Windows in the computer whose first process is PID (computer.ts), in
# the caller's folder and with the caller's environment. SIGINT and SIGTERM reach it as Ctrl-C; if this is killed, so is
# the program.
first=$1
shift
with_me='/usr/bin/setpriv --pdeathsig KILL'
$with_me /usr/bin/nsenter --target "$first" --mount --pid --net --root /usr/bin/env -C "$(pwd)" -u TMPDIR HOME=/root PATH=/usr/bin:/bin LC_ALL=C.UTF-8 \
  WINEPREFIX=/computer WINEDEBUG="${WINEDEBUG:--all}" WINEDLLOVERRIDES="mscoree,mshtml=" XDG_RUNTIME_DIR=/run \
  $with_me /usr/lib/wine/wine64 "$@" </dev/null &
entered=$!

# nsenter itself stays outside; the program is its child.
interrupt() {
  read -r program rest <"/proc/$entered/task/$entered/children"
  [ -n "$program" ] && kill -INT "$program"
}
trap interrupt INT TERM

# A signal ends `wait` before the program has ended.
while :; do
  wait "$entered"
  code=$?
  kill -0 "$entered" 2>/dev/null || exit "$code"
done
