/**
 * The rules for HTTP/2 header fields (RFC 9113, 8.2 and 8.3), of requests, responses and trailers.
 *
 * Both roles check them: a malformed message ends its stream, whoever sent it, and never reaches the handler.
 */

import type { HeaderFields } from "../rpc/metadata.ts";
import { sizeOf } from "./hpack.ts";

export type Section = "request" | "response" | "trailers";

/** Fields that belong to a connection of HTTP/1.1. */
const CONNECTION_FIELDS = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "transfer-encoding",
  "upgrade",
]);

/** One bit for each pseudo-header. */
const METHOD = 1, SCHEME = 2, AUTHORITY = 4, PATH = 8, STATUS = 16;
const PSEUDO: { readonly [name: string]: number | undefined } = {
  __proto__: null as never,
  ":method": METHOD,
  ":scheme": SCHEME,
  ":authority": AUTHORITY,
  ":path": PATH,
  ":status": STATUS,
};
const ALLOWED: Record<Section, number> = {
  request: METHOD | SCHEME | AUTHORITY | PATH,
  response: STATUS,
  trailers: 0,
};

/** A name is a token without capitals. */
const NAME = /^[0-9a-z!#$%&'*+\-.^_`|~]+$/;
/** Spaces around a value are accepted, against the letter of the standard: servers of gRPC send such messages. */
const NOT_IN_VALUES = /[\0\r\n]/;
const LENGTH = /^\d{1,15}$/;

/** Why a message with these fields is malformed; `undefined` if it is not. */
export function problemOf(fields: HeaderFields, section: Section): string | undefined {
  let seen = 0, regular = false;
  for (const [name, value] of fields) {
    if (NOT_IN_VALUES.test(value)) return `a value of ${name} with a character that no value may have`;
    if (name.charCodeAt(0) === 0x3a) {
      const bit = PSEUDO[name] ?? 0;
      if ((bit & ALLOWED[section]) === 0) return `the pseudo-header ${name} in a ${section}`;
      if (regular) return `the pseudo-header ${name} after a field`;
      if (seen & bit) return `two ${name}`;
      if (value === "" && bit !== AUTHORITY) return `an empty ${name}`;
      if (bit === STATUS && !/^[1-9]\d\d$/.test(value)) return `the status "${value}"`;
      seen |= bit;
      continue;
    }

    regular = true;
    if (!NAME.test(name)) return "a field with a name that no field may have";
    if (CONNECTION_FIELDS.has(name)) return `${name}, which belongs to HTTP/1.1`;
    if (name === "te" && value !== "trailers") return `te with "${value}", only trailers may be`;
    if (name === "content-length" && !LENGTH.test(value)) return `a content-length of "${value}"`;
  }
  return missing(fields, section, seen) ?? (section === "request" ? hostProblem(fields) : undefined);
}

/** A request must name one host only, because a proxy in front may have used the other one. */
function hostProblem(fields: HeaderFields): string | undefined {
  let authority: string | undefined, host: string | undefined;
  for (const [name, value] of fields) {
    if (name === ":authority") authority = value.toLowerCase();
    if (name !== "host") continue;
    if (host !== undefined) return "two host fields";
    host = value.toLowerCase();
  }
  const differs = host !== undefined && authority !== undefined && host !== authority;
  return differs ? "a host that differs from :authority" : undefined;
}

function missing(fields: HeaderFields, section: Section, seen: number): string | undefined {
  if (section === "trailers") return undefined;
  if (section === "response") return seen === STATUS ? undefined : "no :status";
  if (fields.some(([name, value]) => name === ":method" && value === "CONNECT")) {
    return seen === (METHOD | AUTHORITY) ? undefined : "CONNECT with other pseudo-headers than :authority";
  }
  const wanted = METHOD | SCHEME | PATH;
  return (seen & wanted) === wanted ? undefined : "a request without :method, :scheme or :path";
}

/** The announced length of a message's data; `undefined` if there is none, -1 if there are several. */
export function contentLength(fields: HeaderFields): number | undefined {
  let length: number | undefined;
  for (const [name, value] of fields) {
    if (name !== "content-length") continue;
    length = length === undefined || length === Number(value) ? Number(value) : -1;
  }
  return length;
}

/**
 * The fields for a peer that accepts `maxBytes`: the largest are dropped first, pseudo-headers never. `undefined` if
 * even those do not fit.
 */
export function fitting(fields: HeaderFields, maxBytes: number): HeaderFields | undefined {
  let bytes = listBytes(fields);
  if (bytes <= maxBytes) return fields;
  const dropped = new Set<HeaderFields[number]>();
  const largest = fields.filter(([name]) => !name.startsWith(":")).sort((a, b) => sizeOf(b) - sizeOf(a));
  for (const field of largest) {
    dropped.add(field);
    bytes -= sizeOf(field);
    if (bytes <= maxBytes) return fields.filter((field) => !dropped.has(field));
  }
  return undefined;
}

/** The size of fields for a limit. */
export function listBytes(fields: HeaderFields): number {
  let bytes = 0;
  for (const field of fields) bytes += sizeOf(field);
  return bytes;
}
