"""Writes the recordings of ROS in this folder, with the package rosbags 0.11 from PyPI: python bags.py FOLDER.

A robot turns on the spot once in a room of 6 by 4 metres with a box in a corner. Its lidar is 20 cm ahead and hangs upside
down; it takes 0.1 s for a turn. The same ride is in a bag of ROS 1 (packed with bz2, and with lz4) and in a rosbag2 (MCAP
with zstd, and SQLite). The SQLite file is too large to be kept here; tests/support/sqlite_bag.ts writes one."""

import math
import sys
from pathlib import Path

import numpy as np
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer as Writer2
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

BEAMS, RATE_RPS, HZ, SECONDS, SWEEP_S, START_S = 90, 0.6, 5, 12, 0.1, 1_700_000_000
WALLS = [(-2, -1.5, 4, -1.5), (4, -1.5, 4, 2.5), (4, 2.5, -2, 2.5), (-2, 2.5, -2, -1.5),
         (2.5, 2.5, 2.5, 1.5), (2.5, 1.5, 4, 1.5)]


def range_to(x, y, angle):
    nearest, dx, dy = math.inf, math.cos(angle), math.sin(angle)
    for ax, ay, bx, by in WALLS:
        ex, ey = bx - ax, by - ay
        across = dx * ey - dy * ex
        if across == 0:
            continue
        t = ((ax - x) * ey - (ay - y) * ex) / across
        along = ((ax - x) * dy - (ay - y) * dx) / across
        if t > 0 and 0 <= along <= 1:
            nearest = min(nearest, t)
    return nearest


def heading(at):
    """It stands for a second at each end."""
    return RATE_RPS * max(0, min(at - 1, SECONDS - 2))


def messages(store, is_ros1):
    """(time in s, topic, message) of the ride."""
    types = store.types
    quaternion = types["geometry_msgs/msg/Quaternion"]
    vector, point = types["geometry_msgs/msg/Vector3"], types["geometry_msgs/msg/Point"]

    def header(seconds, frame):
        whole = math.floor(seconds)
        stamp = types["builtin_interfaces/msg/Time"](sec=whole, nanosec=round((seconds - whole) * 1e9))
        extra = {"seq": 0} if is_ros1 else {}
        return types["std_msgs/msg/Header"](stamp=stamp, frame_id=frame, **extra)

    def transform(seconds, parent, child, x, roll, yaw):
        rotation = quaternion(x=1.0, y=0.0, z=0.0, w=0.0) if roll else quaternion(
            x=0.0, y=0.0, z=math.sin(yaw / 2), w=math.cos(yaw / 2))
        return types["tf2_msgs/msg/TFMessage"](transforms=[types["geometry_msgs/msg/TransformStamped"](
            header=header(seconds, parent), child_frame_id=child,
            transform=types["geometry_msgs/msg/Transform"](translation=vector(x=x, y=0.0, z=0.2), rotation=rotation))])

    yield START_S, "/tf_static", transform(START_S, "base_link", "laser", 0.2, True, 0)
    covariance = np.zeros(36)
    for step in range(SECONDS * 10):
        at = step / 10
        yaw = heading(at)
        pose = types["geometry_msgs/msg/Pose"](
            position=point(x=0.0, y=0.0, z=0.0),
            orientation=quaternion(x=0.0, y=0.0, z=math.sin(yaw / 2), w=math.cos(yaw / 2)))
        twist = types["geometry_msgs/msg/Twist"](linear=vector(x=0.0, y=0.0, z=0.0), angular=vector(x=0.0, y=0.0, z=0.6))
        yield START_S + at, "/odom", types["nav_msgs/msg/Odometry"](
            header=header(START_S + at, "odom"), child_frame_id="base_link",
            pose=types["geometry_msgs/msg/PoseWithCovariance"](pose=pose, covariance=covariance),
            twist=types["geometry_msgs/msg/TwistWithCovariance"](twist=twist, covariance=covariance))
        if step % (10 // HZ) or at < SWEEP_S:
            continue
        ranges = []
        for beam in range(BEAMS):
            seen_at = at - SWEEP_S + SWEEP_S * beam / (BEAMS - 1)
            towards = heading(seen_at)
            # Upside down, beams go clockwise.
            angle = towards - (-math.pi + 2 * math.pi * beam / BEAMS)
            x, y = 0.2 * math.cos(towards), 0.2 * math.sin(towards)
            ranges.append(math.inf if beam % 30 == 29 else range_to(x, y, angle))
        yield START_S + at, "/scan", types["sensor_msgs/msg/LaserScan"](
            header=header(START_S + at - SWEEP_S, "laser"), angle_min=-math.pi, angle_max=math.pi,
            angle_increment=2 * math.pi / BEAMS, time_increment=SWEEP_S / (BEAMS - 1), scan_time=SWEEP_S,
            range_min=0.1, range_max=12.0, ranges=np.array(ranges, dtype=np.float32),
            intensities=np.array([], dtype=np.float32))


def write(writer, store, serialize, is_ros1):
    connections = {}
    with writer:
        for seconds, topic, message in messages(store, is_ros1):
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, message.__msgtype__, typestore=store)
            writer.write(connections[topic], round(seconds * 1e9), serialize(message, message.__msgtype__))


folder = Path(sys.argv[1])
ros1, ros2 = get_typestore(Stores.ROS1_NOETIC), get_typestore(Stores.ROS2_HUMBLE)
ros1.register(get_types_from_msg("geometry_msgs/TransformStamped[] transforms", "tf2_msgs/msg/TFMessage"))
for form in ("bz2", "lz4"):
    writer = Writer1(folder / f"turn_{form}.bag")
    writer.set_compression(getattr(Writer1.CompressionFormat, form.upper()))
    write(writer, ros1, ros1.serialize_ros1, True)
mcap = Writer2(folder / "turn", version=8, storage_plugin=StoragePlugin.MCAP)
mcap.set_compression(CompressionMode.STORAGE, CompressionFormat.ZSTD)
write(mcap, ros2, ros2.serialize_cdr, False)
sqlite = Writer2(folder / "turn_sqlite", version=8, storage_plugin=StoragePlugin.SQLITE3)
write(sqlite, ros2, ros2.serialize_cdr, False)
