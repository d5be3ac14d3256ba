/**
 * The content of a spool's files: a line about the data, then a line for each reading, or the bytes of a file. A sequence
 * is its line.
 */

import type { Captured, CapturedFile, CapturedReading } from "../../lib/resource/uploader.ts";

const NEWLINE = 10;

/** JSON text with a spelling of its own for numbers that JSON lacks, such as NaN. */
export function encodeLine(value: unknown): string {
  return JSON.stringify(
    value,
    (_name, one) => typeof one === "number" && !Number.isFinite(one) ? { $number: String(one) } : one,
  );
}

export function decodeCaptured(bytes: Uint8Array): Captured | undefined {
  const [line, at] = lineAt(bytes, 0);
  const header = parsed(line) as Captured & { bytes?: number } | undefined;
  if (header?.kind === "file") {
    const { bytes: length, ...file } = header as CapturedFile & { bytes: number };
    return bytes.length - at === length ? { ...file, content: bytes.subarray(at) } : undefined;
  }
  if (header?.kind === "sequence") return bytes.length === at ? header : undefined;
  if (header?.kind !== "readings") return undefined;
  const readings: CapturedReading[] = [];
  for (let from = at; from < bytes.length;) {
    const [text, next] = lineAt(bytes, from);
    const reading = parsed(text) as CapturedReading | undefined;
    // A line that was cut short counts as missing.
    if (reading) readings.push(reading);
    from = next;
  }
  return { ...header, readings };
}

/** The complete line that begins at a byte (empty if it is cut short), and where the next line begins. */
function lineAt(bytes: Uint8Array, from: number): [string, number] {
  const end = bytes.indexOf(NEWLINE, from);
  return end < 0 ? ["", bytes.length] : [new TextDecoder().decode(bytes.subarray(from, end)), end + 1];
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line, (_name, one) => typeof one?.$number === "string" ? Number(one.$number) : one);
  } catch {
    return undefined;
  }
}
