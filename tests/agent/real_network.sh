#!/usr/bin/env bash
# Runs a command beside a NetworkManager of its own: its own bus, network devices, mounts and settings; to be started in
# `unshare --mount --net`. Argument 1 is an empty folder; the rest is the command.
set -euo pipefail
folder=$1
shift
ip link set lo up
for own in /run /etc/NetworkManager /var/lib/NetworkManager; do mount -t tmpfs none "$own"; done
mount -t sysfs none /sys
mkdir -p /run/udev/data /etc/NetworkManager/system-connections
cat > /etc/NetworkManager/NetworkManager.conf <<CONF
[main]
plugins=keyfile
auth-polkit=false
dns=none
no-auto-default=*
CONF
cat > "$folder/bus.conf" <<CONF
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type><listen>unix:path=$folder/bus.sock</listen><auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/><allow own="*"/><allow send_type="method_call"/><allow send_destination="*"/><allow receive_sender="*"/>
  </policy>
</busconfig>
CONF
ip link add eth9 type veth peer name eth9p
ip link set eth9p up
# There is no udev here that would tell NetworkManager that these are ready.
touch /run/udev/control
for device in /sys/class/net/*; do echo I:1 > "/run/udev/data/n$(cat "$device/ifindex")"; done
export DBUS_SYSTEM_BUS_ADDRESS="unix:path=$folder/bus.sock"
bus=$(dbus-daemon --config-file="$folder/bus.conf" --fork --print-pid)
NetworkManager --no-daemon > "$folder/manager.log" 2>&1 & manager=$!
trap 'kill $manager $bus 2>/dev/null; wait' EXIT
"$@"
