/**
 * The loader: the shell script that the system starts in place of the agent, and that no update replaces.
 *
 * It applies the boot rule (`boot.ts`) with only `sh`, `readlink`, `ln`, `mv` and `mkdir`, and then becomes the agent.
 * If every link is lost, it finds the agent by the updater's record, with `sed`.
 * It counts starts in the text of links: one rename changes a link, and a link takes no space. If the disk refuses
 * every change, it counts in the run folder and continues. A healthy agent clears the counts.
 */

import { join } from "node:path";
import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";
import { LOADER, RUNTIME_MARK, WATCHDOG_S } from "../system/service_unit.ts";
import { STARTS_MAX } from "./boot.ts";

/** Interval of the signs of life during a pause, so that one of them may get lost. */
const SIGN_S = 60;

/** The pause if nothing can be started, or starts cannot be counted. */
const FAILED_S = 5;

/** Writes the script if it is missing or different. */
export async function installLoader(files: ReadFiles & WriteFiles, base: string): Promise<void> {
  const path = join(base, "bin", LOADER);
  const wanted = new TextEncoder().encode(loaderScript());
  const found = await files.readFile(path).catch(() => undefined);
  if (found && new TextDecoder().decode(found) === loaderScript()) return;
  await files.makeFolder(join(base, "bin"));
  await files.writeFile(path, wanted, { mode: 0o755 });
}

/**
 * The script; its arguments are the agent's. With `SVC_LOADER_DRY=1` it prints the command that it would run, and does
 * not wait.
 */
function loaderScript(): string {
  return SCRIPT.replaceAll("@STARTS_MAX@", String(STARTS_MAX)).replaceAll("@MARK@", RUNTIME_MARK)
    .replaceAll("@SIGN_S@", String(SIGN_S)).replaceAll("@UNSEEN_S@", String(WATCHDOG_S - SIGN_S))
    .replaceAll("@FAILED_S@", String(FAILED_S));
}

const SCRIPT = `#!/bin/sh
# Starts svc-agent: the current version, or the one before it when the current one has failed @STARTS_MAX@ times in
# a row or cannot be run. Written by svc-agent --install; no update replaces it.
bin=$(cd "$(dirname "$0")" && pwd -P)
cache=$(dirname "$bin")/cache
run=$(printf %s "$RUNTIME_DIRECTORY" | cut -d: -f1)
[ -n "$run" ] || run=$(dirname "$bin")/run
name=svc-agent
mkdir -p "$run" 2>/dev/null

# Who stops the service now stops what an earlier agent has left running, as with an agent; the next start has no
# pause.
dir=$(dirname "$bin") before= pause=
for word in "$@"; do
  [ "$before" = --dir ] && dir=$word
  before=$word
done
stopped() {
  [ -n "$pause" ] && kill "$pause" 2>/dev/null
  rm -f "$run/$name.starts" 2>/dev/null
  for one in $(grep -lszxF "@MARK@=$dir" /proc/[0-9]*/environ 2>/dev/null); do
    one=\${one#/proc/}
    kill -TERM "\${one%/environ}" 2>/dev/null
  done
  exit 0
}
trap stopped TERM
# The service restarts without a pause, in which nobody could see its end: pauses are here. The signs of life keep the
# watchdog of the service quiet, which counts from the start of this script.
rest() {
  left=$1
  while [ $left -gt 0 ]; do
    [ -n "$NOTIFY_SOCKET" ] && systemd-notify WATCHDOG=1 2>/dev/null
    step=@SIGN_S@
    [ $left -lt $step ] && step=$left
    sleep $step &
    pause=$!
    wait $pause
    left=$((left - step))
  done
}

# The name of the file a link leads to.
target() { t=$(readlink "$bin/$name$1" 2>/dev/null) && basename "$t"; }
runnable() { [ -n "$1" ] && [ -f "$cache/$1" ] && [ -x "$cache/$1" ] && [ -s "$cache/$1" ]; }
# turn LINK TEXT: changes a link at once, for good.
turn() {
  rm -f "$1.tmp" 2>/dev/null
  ln -s "$2" "$1.tmp" 2>/dev/null && mv -f "$1.tmp" "$1" 2>/dev/null &&
    { sync "$(dirname "$1")" 2>/dev/null || sync; }
}
number() { case $1 in '' | *[!0-9]*) printf 0 ;; *) printf %s "$1" ;; esac; }

current=$(target "") previous=$(target .previous) broken=$(target .broken)
# "starts failures file" for good, and "starts failures file over" until the power goes.
count=$(readlink "$bin/$name.starts" 2>/dev/null) passing=$(readlink "$run/$name.starts" 2>/dev/null)
IFS=' ' read -r c_starts c_failures c_file _ <<EOF_COUNT
$count
EOF_COUNT
IFS=' ' read -r p_starts p_failures p_file p_over _ <<EOF_PASSING
$passing
EOF_PASSING
c_starts=$(number "$c_starts") c_failures=$(number "$c_failures")
p_starts=$(number "$p_starts") p_failures=$(number "$p_failures")

now=$current starts=0
if [ -n "$p_file" ] && [ "$p_over" = "$current" ]; then
  now=$p_file starts=$p_starts
elif [ -n "$c_file" ] && [ "$c_file" = "$now" ]; then
  starts=$c_starts
fi
failures=$c_failures
[ "$p_failures" -gt "$failures" ] && failures=$p_failures

other=
# Whatever was started in its place, the current one gets its next turn.
others="$previous $broken"
[ "$now" = "$current" ] || others="$current $others"
for one in $others; do
  if [ -z "$other" ] && [ "$one" != "$now" ] && runnable "$one"; then other=$one; fi
done

if [ -n "$other" ] && { ! runnable "$now" || [ "$starts" -ge @STARTS_MAX@ ]; }; then
  echo "svc-agent-loader: $now was given up, back to $other" >&2
  if [ "$other" != "$current" ]; then
    # No file loses its last link.
    given_up=$current
    [ -n "$given_up" ] && [ "$other" = "$previous" ] && turn "$bin/$name.broken" "../cache/$given_up"
    turn "$bin/$name" "../cache/$other" && current=$other
    [ -n "$given_up" ] && [ "$other" != "$previous" ] && turn "$bin/$name.broken" "../cache/$given_up"
  fi
  now=$other starts=0
fi
if ! runnable "$now"; then
  # No link leads to a program: a copy of the folder has files in their place, or the disk was repaired. The record
  # names the good version, and the one before it.
  for kind in good previous; do
    record=$(dirname "$bin")/state/versions_$name.json
    one=$(sed -n '/^ "'$kind'": {/,/^ }/s/^  "file": "\\([^"/]*\\)".*/\\1/p' "$record" 2>/dev/null)
    if ! runnable "$now" && runnable "$one"; then
      echo "svc-agent-loader: no link in $bin leads to a program, so the $kind version starts: $one" >&2
      turn "$bin/$name" "../cache/$one" && current=$one
      now=$one starts=0
    fi
  done
fi
if ! runnable "$now"; then
  echo "svc-agent-loader: there is no svc-agent in $cache that can be run: install it again" >&2
  [ -n "$SVC_LOADER_DRY" ] || rest @FAILED_S@
  exit 1
fi
starts=$((starts + 1)) failures=$((failures + 1))
[ "$starts" -gt @STARTS_MAX@ ] && starts=@STARTS_MAX@
turn "$bin/$name.starts" "$starts $failures $now"
uncounted=
turn "$run/$name.starts" "$starts $failures $now $current" || uncounted=yes

# Nothing at first, then twice as long each time, at most five minutes.
delay=0
if [ "$p_failures" -gt 0 ]; then
  delay=1 n=1
  while [ $n -lt "$p_failures" ] && [ $delay -lt 300 ]; do delay=$((delay * 2)) n=$((n + 1)); done
  [ $delay -gt 300 ] && delay=300
fi
# Nobody knows how many starts have failed.
[ -n "$uncounted" ] && delay=@FAILED_S@
if [ -n "$SVC_LOADER_DRY" ]; then
  echo "$now $delay"
  exit 0
fi
if [ -n "$NOTIFY_SOCKET" ] && ! command -v systemd-notify >/dev/null; then
  [ $delay -gt @UNSEEN_S@ ] && delay=@UNSEEN_S@
fi
rest $delay
[ -n "$NOTIFY_SOCKET" ] && systemd-notify WATCHDOG=1 2>/dev/null
exec "$cache/$now" "$@"
`;
