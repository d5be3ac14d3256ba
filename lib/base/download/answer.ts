/**
 * What the header fields of an answer mean for a download: where its bytes begin, how they are encoded, whether they
 * belong to the file of an earlier answer, and when the server wants to be asked again. Pure.
 */

import { SvcError } from "../error.ts";

/** Longest pause that a server can request. */
const RETRY_AFTER_MAX_MS = 24 * 3600_000;

/** What an answer says to tell one content of an address from another. */
export interface Validators {
  readonly etag?: string;
  readonly modified?: string;
}

/** What answers of all clients have. */
interface Answered {
  readonly headers: { get(name: string): string | null | undefined };
}

export function validatorsIn({ headers }: Response): Validators {
  return { etag: headers.get("etag") ?? undefined, modified: headers.get("last-modified") ?? undefined };
}

/**
 * The header field for requesting the rest of a file; `undefined` if the rest might belong to another file. If the sum
 * is known, a weak tag, a date or nothing suffices, because the sum decides in the end.
 */
export function conditionFor(
  { etag, modified }: Validators,
  isSumKnown: boolean,
): Record<string, string> | undefined {
  if (etag !== undefined && !etag.startsWith("W/")) return { "if-range": etag };
  if (!isSumKnown) return undefined;
  // A weak tag is not allowed in this field; the tag of the answer is compared instead.
  return etag === undefined && modified !== undefined ? { "if-range": modified } : {};
}

/** Whether an answer with a part of a file has the same content, by its header fields. */
export function isSameContent(before: Validators, answer: Response): boolean {
  const now = validatorsIn(answer);
  return ([["etag", now.etag], ["modified", now.modified]] as const)
    .every(([name, value]) => value === undefined || before[name] === undefined || value === before[name]);
}

/** The position of an answer's first byte in the file. */
export function rangeStart(answer: Response): number | undefined {
  const start = /^bytes (\d+)-/.exec(answer.headers.get("content-range") ?? "")?.[1];
  return start === undefined ? undefined : Number(start);
}

/** `Retry-After`, a number of seconds or a date by the server's own clock, as a time from now. */
export function retryAfterMs({ headers }: Answered, nowMs: number): number | undefined {
  const text = headers.get("retry-after") ?? "";
  const sentMs = Date.parse(headers.get("date") ?? "");
  const fromMs = Number.isNaN(sentMs) ? nowMs : sentMs;
  const ms = /^\s*\d+\s*$/.test(text) ? Number(text) * 1000 : Date.parse(text) - fromMs;
  return Number.isFinite(ms) && ms > 0 ? Math.min(ms, RETRY_AFTER_MAX_MS) : undefined;
}

/** Encodings that this program can decode, for a server that compresses although it was not asked to. */
const DECODED = ["", "gzip", "deflate"] as const;

export type DecodedEncoding = typeof DECODED[number];

/** Words that servers and object stores use for a body without an encoding. */
const NO_ENCODING = ["", "identity", "none", "binary", "utf-8", "utf8", "aws-chunked"];

/** The encoding of a body; empty if it is sent as it is. */
export function contentEncodingOf({ headers }: Response): string {
  const named = (headers.get("content-encoding") ?? "").toLowerCase().split(",").map((one) => one.trim());
  // RFC 9110 allows the older name.
  return named.filter((one) => !NO_ENCODING.includes(one)).join(", ").replace(/^x-gzip$/, "gzip");
}

export function isDecoded(encoding: string): encoding is DecodedEncoding {
  return (DECODED as readonly string[]).includes(encoding);
}

/** The pieces without their compression. */
export async function* decoded(
  pieces: AsyncIterable<Uint8Array<ArrayBuffer>>,
  encoding: DecodedEncoding,
): AsyncGenerator<Uint8Array> {
  if (encoding === "") return yield* pieces;
  try {
    yield* ReadableStream.from(pieces).pipeThrough(new DecompressionStream(encoding));
  } catch (cause) {
    if (cause instanceof SvcError) throw cause;
    throw new SvcError("unavailable", `what the server sends as ${encoding} is none`, { cause });
  }
}
