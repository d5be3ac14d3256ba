/**
 * Texts of other programs: in UTF-8, in UTF-16 with its mark, or in the encoding that an XML file declares; JSON as Python
 * writes it. Pure.
 */

import { messageOf, SvcError } from "../../../lib/base/error.ts";

/** An XML declaration stands within this many bytes. */
const DECLARATION_BYTES = 256;
/** Python writes these words for numbers that JSON does not have. */
const STRINGS_AND_WORDS = /"(?:[^"\\]|\\.)*"|-?\bInfinity\b|\bNaN\b/g;

/** Throws `invalid_argument` if the bytes are in none of the encodings. */
export function decodedText(bytes: Uint8Array): string {
  return decoded(bytes, markedEncoding(bytes) ?? "utf-8");
}

/** The same of an XML file, which may declare another encoding. */
export function decodedXml(bytes: Uint8Array): string {
  const head = String.fromCharCode(...bytes.subarray(0, DECLARATION_BYTES));
  const [, declared] = /^\s*<\?xml[^>]*\sencoding\s*=\s*["']([A-Za-z0-9._:-]+)["']/.exec(head) ?? [];
  return decoded(bytes, markedEncoding(bytes) ?? declared ?? "utf-8");
}

/** Numbers that JSON does not have (`NaN`, `Infinity`) become null. Throws `invalid_argument`. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    try {
      return JSON.parse(text.replace(STRINGS_AND_WORDS, (one) => one.startsWith('"') ? one : "null"));
    } catch {
      throw new SvcError("invalid_argument", `it is not JSON: ${messageOf(cause)}`, { cause });
    }
  }
}

function markedEncoding([first, second]: Uint8Array): string | undefined {
  if (first === 0xff && second === 0xfe) return "utf-16le";
  if (first === 0xfe && second === 0xff) return "utf-16be";
  return undefined;
}

function decoded(bytes: Uint8Array, encoding: string): string {
  let decoder: TextDecoder;
  try {
    decoder = new TextDecoder(encoding, { fatal: true });
  } catch (cause) {
    const problem = `it declares the encoding "${encoding}", which is unknown: save it in UTF-8`;
    throw new SvcError("invalid_argument", problem, { cause });
  }
  try {
    return decoder.decode(bytes);
  } catch (cause) {
    const name = encoding.toUpperCase();
    throw new SvcError("invalid_argument", `it is not in ${name}: save it in UTF-8`, { cause });
  }
}
