/**
 * Logs as files, plain or compressed with gzip.
 */

import { gunzipSync } from "node:zlib";
import { messageOf, SvcError } from "../../base/error.ts";
import type { ReadFiles } from "../../base/files/files.ts";
import { type CarmenLog, readCarmenLog } from "./carmen.ts";
import { readSensorFacts, type SensorFacts } from "./sensor.ts";

/** Limit of a text, compressed or not: ten times the log of a day. */
const TEXT_BYTES_MAX = 1024 ** 3;

/** Reads a CARMEN log. Throws `invalid_argument` for any other file. */
export async function readLogFile(
  files: Pick<ReadFiles, "readFile" | "fileSize">,
  path: string,
): Promise<CarmenLog> {
  const text = await readText(files, path);
  try {
    return readCarmenLog(text);
  } catch (error) {
    throw new SvcError("invalid_argument", `the log "${path}" cannot be read: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

/** The file with the facts about the lidar that a recording lacks. */
export function sensorFileOf(recording: string): string {
  return `${recording.replace(/\.gz$/, "").replace(/\.(?:log|clf|bag|mcap|db3)$/, "")}.sensor.json`;
}

/**
 * The facts about the lidar in the file `given`, or else in the file beside a recording; undefined if there
 * is none.
 */
export async function readSensorFile(
  files: Pick<ReadFiles, "readFile" | "fileSize" | "stat">,
  recording: string,
  given = "",
): Promise<SensorFacts | undefined> {
  const path = given === "" ? sensorFileOf(recording) : given;
  if (given === "" && (await files.stat(path))?.kind !== "file") return undefined;
  const text = await readText(files, path);
  try {
    return readSensorFacts(text);
  } catch (cause) {
    throw new SvcError("invalid_argument", `"${path}" cannot be read: ${messageOf(cause)}`, { cause });
  }
}

/** The text of a file, unpacked if it starts like a gzip file. */
export async function readText(
  files: Pick<ReadFiles, "readFile" | "fileSize">,
  path: string,
): Promise<string> {
  const size = await files.fileSize(path) ?? 0;
  if (size > TEXT_BYTES_MAX) {
    throw new SvcError("resource_exhausted", `"${path}" has ${size} bytes, wanted at most ${TEXT_BYTES_MAX}`);
  }
  const bytes = await files.readFile(path);
  const isPacked = bytes[0] === 0x1f && bytes[1] === 0x8b;
  try {
    const plain = isPacked ? gunzipSync(bytes, { maxOutputLength: TEXT_BYTES_MAX }) : bytes;
    return new TextDecoder().decode(plain);
  } catch (error) {
    throw new SvcError("invalid_argument", `"${path}" cannot be unpacked: ${messageOf(error)}`, {
      cause: error,
    });
  }
}
