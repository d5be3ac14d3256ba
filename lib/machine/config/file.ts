/**
 * The configuration file: from bytes to JSON.
 *
 * The file is JSON or JSONC in UTF-8. Shell-style variables are substituted from the environment at every read:
 * `${NAME}`, `$NAME`, `${NAME-default}` and `${NAME:-default}`, inside texts and, without quotes, as numbers, true or
 * false. An unset variable stays as it is written, and so does anything with a dot in it: placeholders such as
 * `${environment.NAME}` and `${packages.type.name}` belong to the next stage. Keys are never substituted.
 */

import type { Environment } from "../../base/host.ts";
import type { ReadFiles } from "../../base/files/files.ts";
import { SvcError } from "../../base/error.ts";
import { parseJsonc, type TextSpan } from "../../base/schema/jsonc.ts";
import { isObject, type JsonObject, type Problem, show } from "../../base/schema/schema.ts";
import { type LineColumn, spanAt, TextLines } from "../../base/schema/text_places.ts";

/** Far more than any machine needs; a larger file is a mistake. */
const CONFIG_BYTES_MAX = 16 * 1024 * 1024;

export interface ParseOptions {
  /** The file's name in errors. */
  readonly file: string;
  readonly env: (name: string) => string | undefined;
  /** Receives warnings, such as duplicate keys. */
  readonly problems?: Problem[];
  /** Receives where each value stands; see `parseJsonc`. */
  readonly spans?: Map<string, TextSpan>;
}

/** Parses a configuration. Throws `invalid_argument` with `<file>:<line>:<column>: found …, wanted …`. */
export function parseConfig(bytes: Uint8Array, { file, env, problems, spans }: ParseOptions): JsonObject {
  checkSize(bytes.length, file);
  const json = parseJsonc(bytes, { file, variable: env, problems, spans, tolerant: true });
  if (isObject(json)) return json as JsonObject;
  throw new SvcError(
    "invalid_argument",
    `${file}: found ${show(json)}, wanted an object such as {"components": []}`,
  );
}

/**
 * Finds where each path stands in the text of a configuration that `parseConfig` accepts. Reads the text at the first
 * question only: few configurations have problems.
 */
export function positionsIn(
  bytes: Uint8Array,
  options: Pick<ParseOptions, "file" | "env">,
): (path: string) => LineColumn | undefined {
  const read = () => {
    const spans = new Map<string, TextSpan>();
    parseConfig(bytes, { ...options, spans });
    return { spans, lines: new TextLines(new TextDecoder().decode(bytes)) };
  };
  let text: ReturnType<typeof read> | undefined;
  return (path) => {
    if (path === "") return undefined;
    const { spans, lines } = text ??= read();
    return lines.at(spanAt(path, spans).from);
  };
}

/** Reads and parses a configuration file; an unreadable file is the host's error. */
export async function readConfig(
  host: Environment & ReadFiles,
  path: string,
  problems: Problem[] = [],
): Promise<JsonObject> {
  const bytes = await readConfigBytes(host, path);
  return parseConfig(bytes, { file: path, env: (name) => host.env(name), problems });
}

/** Reads a configuration file, unless it is far too large. */
export async function readConfigBytes(
  host: ReadFiles,
  path: string,
): Promise<Uint8Array> {
  const size = await host.fileSize(path) ?? 0;
  checkSize(size, path);
  if (size > 0) return await host.readFile(path);
  // A pipe or a device, whose size is known at its end.
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  let sizeBytes = 0;
  for await (const piece of host.readPieces(path)) {
    checkSize(sizeBytes += piece.length, path);
    pieces.push(piece);
  }
  return await new Blob(pieces).bytes();
}

function checkSize(sizeBytes: number, file: string): void {
  if (sizeBytes <= CONFIG_BYTES_MAX) return;
  const size = (sizeBytes / 1024 / 1024).toFixed(1);
  const max = CONFIG_BYTES_MAX / 1024 / 1024;
  throw new SvcError("invalid_argument", `${file}: the file has ${size} MiB, wanted at most ${max} MiB`);
}
