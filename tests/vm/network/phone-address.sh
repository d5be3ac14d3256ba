#!/bin/sh
# What the phone does with the address that it gets (busybox udhcpc calls it).
[ "$1" = bound ] || [ "$1" = renew ] || exit 0
ip address replace "$ip/$mask" dev "$interface"
[ -z "$router" ] || ip route replace default via "${router%% *}"
: > /etc/resolv.conf
for server in $dns; do echo "nameserver $server" >> /etc/resolv.conf; done
echo "$ip names by $dns"
