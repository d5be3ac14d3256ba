/** Answers a request with content of known size: all of it, a part, or nothing if the client already has it. */

import { SvcError } from "../../base/error.ts";
import type { HeaderFields } from "../rpc/metadata.ts";
import { fieldValue } from "./exchange.ts";
import type { RouteAnswer, RouteRequest } from "./route.ts";

export interface Content {
  /** Changes whenever the bytes do; with its quotation marks. */
  readonly etag: string;
  readonly bytes: number;
  readonly contentType: string;
  /** The bytes from byte `from` on. */
  readonly read: (from: number) => AsyncIterable<Uint8Array>;
  readonly fields: HeaderFields;
}

/** The whole content or the requested range. An answer whose content ends too early is broken off. */
export function contentAnswer({ fields }: Pick<RouteRequest, "fields">, content: Content): RouteAnswer {
  const { etag, bytes, contentType, read } = content;
  const head: HeaderFields = [["etag", etag], ["accept-ranges", "bytes"], ...content.fields];
  if (isListed(fieldValue(fields, "if-none-match"), etag)) {
    return { status: 304, contentType, body: "", fields: head };
  }

  const condition = fieldValue(fields, "if-range");
  const range = condition === undefined || condition === etag
    ? rangeOf(fieldValue(fields, "range"), bytes)
    : undefined;
  if (range === "unsatisfiable") {
    return {
      status: 416,
      contentType: "text/plain; charset=utf-8",
      body: `the range is beyond the end at ${bytes} bytes\n`,
      fields: [...head, ["content-range", `bytes */${bytes}`]],
    };
  }

  const { from, to } = range ?? { from: 0, to: bytes - 1 };
  return {
    status: range ? 206 : 200,
    contentType,
    body: part(read(from), to - from + 1),
    bytes: to - from + 1,
    fields: range ? [...head, ["content-range", `bytes ${from}-${to}/${bytes}`]] : head,
  };
}

/** The first and the last byte; `undefined` for the whole content, also if several ranges are requested. */
function rangeOf(
  header: string | undefined,
  bytes: number,
): { from: number; to: number } | "unsatisfiable" | undefined {
  const [, first, last] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header?.trim() ?? "") ?? [];
  if (first === undefined || (first === "" && last === "")) return undefined;
  const from = first === "" ? Math.max(0, bytes - Number(last)) : Number(first);
  const to = first === "" || last === "" ? bytes - 1 : Math.min(bytes - 1, Number(last));
  if (first !== "" && last !== "" && Number(last) < from) return undefined;
  return from > to ? "unsatisfiable" : { from, to };
}

async function* part(content: AsyncIterable<Uint8Array>, bytes: number): AsyncGenerator<Uint8Array> {
  let left = bytes;
  if (left <= 0) return;
  for await (const chunk of content) {
    yield chunk.subarray(0, left);
    if ((left -= chunk.length) <= 0) return;
  }
  throw new SvcError("data_loss", `a content ends ${left} bytes too early`);
}

function isListed(header: string | undefined, etag: string): boolean {
  return header !== undefined &&
    header.split(",").some((one) => one.trim() === "*" || one.trim().replace(/^W\//, "") === etag);
}
