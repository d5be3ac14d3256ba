/**
 * The ROS messages that a map needs: scans, odometry and transforms, as ROS 1 and ROS 2 write them. It ignores
 * the definitions that a bag contains, because these messages are the same everywhere.
 *
 * The room owns recordings of ROS (bags): their containers, their messages, and the scans and poses made of them.
 */

import type { MessageDefinition } from "@foxglove/message-definition";
import { MessageReader as Ros1Reader } from "@foxglove/rosmsg-serialization";
import { MessageReader as Ros2Reader } from "@foxglove/rosmsg2-serialization";

/** A message in a container: its topic and its bytes. */
export interface BagMessage {
  readonly topic: string;
  readonly type: WantedType;
  readonly encoding: MessageEncoding;
  /** When it was recorded, in seconds since the Unix epoch. */
  readonly loggedS: number;
  readonly data: Uint8Array;
}

export type MessageEncoding = "ros1" | "cdr";

const WANTED = [
  "sensor_msgs/LaserScan",
  "sensor_msgs/MultiEchoLaserScan",
  "nav_msgs/Odometry",
  "tf2_msgs/TFMessage",
] as const;
export type WantedType = typeof WANTED[number];

interface RosHeader {
  readonly stamp: { readonly sec: number; readonly nsec: number };
  readonly frame_id: string;
}

interface RosVector {
  readonly x: number;
  readonly y: number;
  readonly z: number;
}

interface RosRotation extends RosVector {
  readonly w: number;
}

export interface LaserScanMessage {
  readonly header: RosHeader;
  readonly angle_min: number;
  readonly angle_increment: number;
  readonly time_increment: number;
  readonly range_min: number;
  readonly range_max: number;
  readonly ranges: Float32Array;
}

export interface MultiEchoLaserScanMessage extends Omit<LaserScanMessage, "ranges"> {
  /** What each beam met, one behind the other: glass, and the wall behind it. */
  readonly ranges: readonly { readonly echoes: Float32Array }[];
}

export interface OdometryMessage {
  readonly header: RosHeader;
  readonly child_frame_id: string;
  readonly pose: { readonly pose: { readonly position: RosVector; readonly orientation: RosRotation } };
}

export interface TransformMessage {
  readonly transforms: readonly {
    readonly header: RosHeader;
    readonly child_frame_id: string;
    readonly transform: { readonly translation: RosVector; readonly rotation: RosRotation };
  }[];
}

/** Limit of one message: a scan of 100,000 beams is smaller. */
export const BAG_MESSAGE_BYTES_MAX = 4 * 1024 ** 2;

/** The type without the folder that ROS 2 puts into it; undefined if a map does not need it. */
export function wantedType(type: string): WantedType | undefined {
  const plain = type.replace("/msg/", "/");
  // The transforms of old recordings.
  if (plain === "tf/tfMessage") return "tf2_msgs/TFMessage";
  return WANTED.find((one) => one === plain);
}

export function encodingOf(name: string): MessageEncoding | undefined {
  return name === "ros1" || name === "cdr" ? name : undefined;
}

/** Decodes messages; its readers are made at their first use. */
export class MessageDecoder {
  readonly #readers = new Map<string, { readMessage<T>(data: Uint8Array): T }>();

  /** Throws for data that is not a message of the type. */
  decode<T>({ type, encoding, data }: Pick<BagMessage, "type" | "encoding" | "data">): T {
    if (data.length > BAG_MESSAGE_BYTES_MAX) {
      throw new RangeError(`a ${type} of ${data.length} bytes, wanted at most ${BAG_MESSAGE_BYTES_MAX}`);
    }
    const key = `${encoding} ${type}`;
    let reader = this.#readers.get(key);
    if (!reader) {
      const definitions = definitionsOf(type, encoding);
      reader = encoding === "cdr"
        ? new Ros2Reader(definitions, { timeType: "sec,nsec" })
        : new Ros1Reader(definitions);
      this.#readers.set(key, reader);
    }
    return reader.readMessage<T>(data);
  }
}

type Fields = readonly string[];

const BEAMS = [
  "std_msgs/Header header",
  ...["angle_min", "angle_max", "angle_increment", "time_increment", "scan_time", "range_min", "range_max"]
    .map((name) => `float32 ${name}`),
];
/** The fields of each message, as `type name`. */
const FIELDS: { readonly [type: string]: Fields } = {
  "sensor_msgs/LaserScan": [...BEAMS, "float32[] ranges"],
  "sensor_msgs/MultiEchoLaserScan": [...BEAMS, "sensor_msgs/LaserEcho[] ranges"],
  "sensor_msgs/LaserEcho": ["float32[] echoes"],
  "nav_msgs/Odometry": [
    "std_msgs/Header header",
    "string child_frame_id",
    "geometry_msgs/PoseWithCovariance pose",
  ],
  "tf2_msgs/TFMessage": ["geometry_msgs/TransformStamped[] transforms"],
  "geometry_msgs/PoseWithCovariance": ["geometry_msgs/Pose pose"],
  "geometry_msgs/Pose": ["geometry_msgs/Vector3 position", "geometry_msgs/Quaternion orientation"],
  "geometry_msgs/TransformStamped": [
    "std_msgs/Header header",
    "string child_frame_id",
    "geometry_msgs/Transform transform",
  ],
  "geometry_msgs/Transform": ["geometry_msgs/Vector3 translation", "geometry_msgs/Quaternion rotation"],
  "geometry_msgs/Vector3": ["float64 x", "float64 y", "float64 z"],
  "geometry_msgs/Quaternion": ["float64 x", "float64 y", "float64 z", "float64 w"],
};
const HEADERS: { readonly [E in MessageEncoding]: Fields } = {
  ros1: ["uint32 seq", "time stamp", "string frame_id"],
  cdr: ["time stamp", "string frame_id"],
};

/** The definitions with that of `type` first. What follows the last field of interest is left out. */
function definitionsOf(type: WantedType, encoding: MessageEncoding): MessageDefinition[] {
  const all = { ...FIELDS, "std_msgs/Header": HEADERS[encoding] };
  return [type, ...Object.keys(all).filter((one) => one !== type)].map((name) => ({
    ...(name === type ? {} : { name }),
    definitions: all[name as keyof typeof all].map(fieldOf),
  }));
}

function fieldOf(field: string) {
  const [written = "", name = ""] = field.split(" ");
  const type = written.replace("[]", "");
  return { name, type, isComplex: type.includes("/"), isArray: written.endsWith("[]") };
}
