"""Delays packets: `delay.py DEVICE MS SPREAD_MS` makes a TUN device and writes back, later, what is routed to it."""

import fcntl
import heapq
import itertools
import os
import random
import select
import struct
import sys
import time

TUNSETIFF = 0x400454CA  # linux/if_tun.h
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
LARGEST_PACKET = 65535

device, delay_s, spread_s = sys.argv[1], float(sys.argv[2]) / 1000, float(sys.argv[3]) / 1000
tun = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TUN | IFF_NO_PI))
# One write: whoever waits for it reads no further.
os.write(1, b"ready\n")

waiting, order = [], itertools.count()
while True:
    wait_s = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
    if select.select([tun], [], [], wait_s)[0]:
        packet = os.read(tun, LARGEST_PACKET)
        due = time.monotonic() + delay_s + random.uniform(-spread_s, spread_s)
        heapq.heappush(waiting, (due, next(order), packet))
    while waiting and waiting[0][0] <= time.monotonic():
        os.write(tun, heapq.heappop(waiting)[2])
