#!/bin/bash
# Everything around the device that a radio reaches: two routers with Wi-Fi of their own, the internet behind them, and a
# phone. Each is a network namespace; the device is the system itself, with the radio wlan0.
#
#   air start                     makes all of it, once after each boot
#   air router NAME on|off        the router's access point
#   air internet NAME on|off      the router's line to the outside
#   air keys NAME WPA-PSK|SAE     WPA2 or WPA3 alone, from the next start of its access point
#   air join SSID [PASSWORD]      the phone joins a network and asks for an address
#   air leave                     the phone leaves it
#   air networks                  what the phone sees, a line each: SSID, tab, how it is protected
set -euo pipefail

at() { ip netns exec "$@"; }

# A router: its name, its radio, its device, the first three numbers of its addresses, its channel, its password.
router() {
  local name=$1 phy=$2 device=$3 net=$4 channel=$5 password=$6
  local line=10.99.${net##*.}
  ip netns add "$name"
  iw phy "$phy" set netns name "$name"
  ip link add "up-$name" netns outside type veth peer name up0 netns "$name"
  at outside ip address add "$line.1/24" dev "up-$name"
  at outside ip link set "up-$name" up
  at outside ip route add "$net.0/24" via "$line.2"
  at "$name" ip link set lo up
  at "$name" ip address add "$line.2/24" dev up0
  at "$name" ip link set up0 up
  at "$name" ip route add default via "$line.1"
  at "$name" ip address add "$net.1/24" dev "$device"
  at "$name" sysctl -qw net.ipv4.ip_forward=1
  cat > "/run/air/$name.conf" <<CONF
interface=$device
driver=nl80211
ssid=$name
hw_mode=g
channel=$channel
wpa=2
wpa_key_mgmt=WPA-PSK
rsn_pairwise=CCMP
wpa_passphrase=$password
CONF
  echo "$line.1" > "/run/air/$name.gateway"
  at "$name" dnsmasq --conf-file=/dev/null --interface="$device" --bind-dynamic --port=0 \
    --dhcp-range="$net.50,$net.99,10m" --dhcp-leasefile="/run/air/$name.leases" --pid-file="/run/air/$name.dnsmasq"
}

start() {
  mkdir -p /run/air
  modprobe mac80211_hwsim radios=4
  modprobe hci_vhci
  ip netns add outside
  local cable
  cable=$(ls /sys/class/net | grep -m1 -E '^(en|eth)')
  ip link set "$cable" netns outside
  at outside ip link set lo up
  at outside ip address add 10.0.2.15/24 dev "$cable"
  at outside ip link set "$cable" up
  at outside ip route add default via 10.0.2.2
  at outside sysctl -qw net.ipv4.ip_forward=1
  at outside nft add table ip nat
  at outside nft add chain ip nat out '{ type nat hook postrouting priority 100; }'
  at outside nft add rule ip nat out oifname "$cable" masquerade
  router shop phy1 wlan1 192.168.61 1 "shop password"
  router annex phy3 wlan3 192.168.62 6 "annex password"
  ip netns add phone
  iw phy phy2 set netns name phone
  at phone ip link set lo up
  mkdir -p /etc/netns/phone
  echo > /etc/netns/phone/resolv.conf
}

switch_router() {
  local name=$1 pid=/run/air/$1.hostapd
  case $2 in
  on) [[ -e $pid ]] || at "$name" hostapd -B -P "$pid" -f "/run/air/$name.log" "/run/air/$name.conf" > /dev/null ;;
  off)
    [[ -e $pid ]] || return 0
    kill "$(cat "$pid")"
    while [[ -e $pid ]]; do sleep 0.1; done
    ;;
  esac
}

set_keys() {
  local conf=/run/air/$1.conf
  sed -i '/^wpa_key_mgmt=/d; /^ieee80211w=/d' "$conf"
  echo "wpa_key_mgmt=$2" >> "$conf"
  # WPA3 wants protected management frames.
  if [[ $2 == SAE ]]; then echo "ieee80211w=2" >> "$conf"; fi
}

switch_internet() {
  case $2 in
  on)
    at "$1" ip link set up0 up
    at "$1" ip route replace default via "$(cat "/run/air/$1.gateway")"
    ;;
  off) at "$1" ip link set up0 down ;;
  esac
}

join() {
  leave
  {
    echo "ctrl_interface=/run/air/phone"
    echo "network={"
    echo "ssid=\"$1\""
    if [[ -n ${2:-} ]]; then echo "psk=\"$2\""; else echo "key_mgmt=NONE"; fi
    echo "}"
  } > /run/air/phone.conf
  : > /run/air/phone.log
  at phone wpa_supplicant -B -D nl80211 -i wlan2 -c /run/air/phone.conf -P /run/air/phone.pid -f /run/air/phone.log
  for _ in $(seq 300); do
    if grep -q CTRL-EVENT-CONNECTED /run/air/phone.log; then
      at phone busybox udhcpc -i wlan2 -n -q -t 20 -T 2 -s /mnt/share/phone-address.sh
      return
    fi
    if grep -q 'reason=WRONG_KEY' /run/air/phone.log; then
      echo "the password is wrong"
      exit 2
    fi
    sleep 0.2
  done
  cat /run/air/phone.log
  exit 1
}

leave() {
  [[ -e /run/air/phone.pid ]] || return 0
  kill "$(cat /run/air/phone.pid)" 2>/dev/null || true
  while [[ -e /run/air/phone.pid ]]; do sleep 0.1; done
  at phone ip address flush dev wlan2
  echo > /etc/netns/phone/resolv.conf
}

networks() {
  at phone ip link set wlan2 up
  at phone iw dev wlan2 scan flush |
    awk '/^BSS /{print line; line=""} /^\tSSID: /{line=substr($0, 8)} /^\tRSN:/{line=line "\tWPA2"} END{print line}' |
    sort -u
}

case $1 in
start) start ;;
router) switch_router "$2" "$3" ;;
keys) set_keys "$2" "$3" ;;
internet) switch_internet "$2" "$3" ;;
join) join "$2" "${3:-}" ;;
leave) leave ;;
networks) networks ;;
esac
