/**
 * Recordings of ROS as files or folders: rosbag2 in MCAP or SQLite, and bags of ROS 1. Nothing in them is trusted:
 * sizes, counts and times have limits, and an error for a value beyond its limit names the place in the file.
 */

import { messageOf, SvcError } from "../../base/error.ts";
import type { ReadFiles } from "../../base/files/files.ts";
import { BagLog, type BagRecording, type BagTopics } from "./bag_log.ts";
import { readMcap } from "./mcap.ts";
import type { BagMessage } from "./messages.ts";
import { readRosbag1 } from "./rosbag1.ts";
import { readSqliteBag } from "./sqlite_bag.ts";
import { Unpacker } from "./unpacking.ts";

type BagFiles = Pick<ReadFiles, "readPieces" | "stat" | "readFolder">;

const KINDS = [".mcap", ".db3", ".bag"] as const;
/** Limit of the files of a split recording. */
const PARTS_MAX = 10_000;

/** Reads a file, or the folder of a rosbag2. Throws `invalid_argument` with the path and the reason. */
export async function readBag(files: BagFiles, path: string, topics: BagTopics = {}): Promise<BagRecording> {
  const log = new BagLog(topics);
  for (const part of await listParts(files, path)) {
    try {
      const cut = () => log.note(`"${part}" ends in the middle: what comes before is used`);
      for await (const message of messagesIn(files, part, cut)) log.add(message);
    } catch (cause) {
      const { code } = SvcError.from(cause);
      throw new SvcError(
        code === "not_found" || code === "resource_exhausted" ? code : "invalid_argument",
        `the recording "${part}" cannot be read: ${messageOf(cause)}`,
        { cause },
      );
    }
  }
  try {
    return log.finish();
  } catch (cause) {
    throw new SvcError("invalid_argument", `the recording "${path}" ${messageOf(cause)}`, { cause });
  }
}

function messagesIn(
  files: BagFiles,
  path: string,
  cut: () => void,
): AsyncIterable<BagMessage> | Iterable<BagMessage> {
  if (path.endsWith(".db3")) return readSqliteBag(path);
  const read = path.endsWith(".mcap") ? readMcap : readRosbag1;
  return read(files.readPieces(path), new Unpacker(), cut);
}

/** The file itself, or the files of a folder in the order of their numbers. */
async function listParts(files: BagFiles, path: string): Promise<string[]> {
  if ((await files.stat(path))?.kind !== "folder") return [path];
  const names = (await files.readFolder(path)).filter((name) => KINDS.some((kind) => name.endsWith(kind)));
  if (names.length > 0 && names.length <= PARTS_MAX) {
    const order = new Intl.Collator("en", { numeric: true });
    return names.sort(order.compare).map((name) => `${path}/${name}`);
  }
  throw new SvcError(
    "invalid_argument",
    `the folder "${path}" has ${names.length} recordings (${
      KINDS.join(", ")
    }), wanted 1 to ${PARTS_MAX}; unpack .zst files ` +
      "first: zstd -d FILE",
  );
}
