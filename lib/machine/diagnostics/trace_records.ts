/**
 * Spans in a file as published tools fetch and read it: one `ResourceSpans` of OTLP after another, each behind its
 * length in four bytes, the lowest first.
 *
 * Readers of the file depend on correct lengths, so a file that a kill or a full disk has cut short is set aside before
 * anything is added.
 */

import { SendTracesRequestSchema } from "../../../proto/gen/robot_pb.ts";
import { ResourceSpansSchema } from "../../../proto/gen/trace_pb.ts";
import type { AppendFile, LogFiles, ReadFiles } from "../../base/files/files.ts";
import { fromBinary, toBinary } from "../../wire/rpc/proto.ts";

const FILE_BYTES = 10_000_000;
const LENGTH_BYTES = 4;

export class TraceRecords {
  #file: AppendFile | undefined;
  #sizeBytes = 0;
  #isWhole = true;

  private constructor(private readonly path: string, private readonly host: LogFiles & ReadFiles) {}

  /** Sets aside a file that was cut short; leaves any other file alone. */
  static async open(path: string, host: LogFiles & ReadFiles): Promise<TraceRecords> {
    const records = new TraceRecords(path, host);
    const size = await host.fileSize(path) ?? 0;
    records.#isWhole = size <= FILE_BYTES && (size === 0 || isWhole(await host.readFile(path)));
    return records;
  }

  /** Adds the content of a request to a collector. If it throws, it may have written a part of the content. */
  append(request: Uint8Array): void {
    try {
      if (!this.#isWhole || this.#sizeBytes > FILE_BYTES) this.#setAside();
      this.#file ??= this.#open();
      this.#isWhole = false;
      for (const spans of fromBinary(SendTracesRequestSchema, request).resourceSpans) {
        const bytes = toBinary(ResourceSpansSchema, spans);
        const record = new Uint8Array(LENGTH_BYTES + bytes.length);
        new DataView(record.buffer).setUint32(0, bytes.length, true);
        record.set(bytes, LENGTH_BYTES);
        this.#file.append(record);
        this.#sizeBytes += record.length;
      }
      this.#isWhole = true;
    } catch (error) {
      this.close();
      throw error;
    }
  }

  close(): void {
    this.#file?.close();
    this.#file = undefined;
  }

  #open(): AppendFile {
    const file = this.host.openAppend(this.path);
    this.#sizeBytes = file.sizeBytes;
    return file;
  }

  #setAside(): void {
    this.close();
    this.host.moveFile(this.path, `${this.path}.1`);
    this.#isWhole = true;
  }
}

/** Whether the bytes are records to their end. */
function isWhole(bytes: Uint8Array): boolean {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let at = 0;
  while (at + LENGTH_BYTES <= bytes.length) at += LENGTH_BYTES + view.getUint32(at, true);
  return at === bytes.length;
}
