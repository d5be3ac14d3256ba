/**
 * One HTTP/1.1 request to a URL that somebody else has chosen.
 *
 * The name is resolved once, its addresses are checked, and the connection goes to the address that was checked: a name
 * that changes its address meanwhile changes nothing. It follows no redirection and does not read the body of the
 * answer, so that any server costs a bounded amount of memory and time.
 *
 * The room owns requests to addresses that others name: where they may go, and how they go there.
 */

import { Buffer } from "node:buffer";
import { lookup } from "node:dns/promises";
import { connect as connectNet, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { type Clock, deadline, race } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import type { PublicAddresses } from "./public_addresses.ts";

export interface SingleRequest {
  readonly method: "GET" | "POST";
  readonly url: URL;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Uint8Array;
}

export interface SingleAnswer {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
}

export interface OutwardOptions {
  readonly addresses: PublicAddresses;
  readonly clock: Clock;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** The addresses of a name; by default as the system resolves it. */
  readonly resolve?: (host: string) => Promise<readonly string[]>;
}

const HEAD_BYTES_MAX = 64 * 1024;
const HEADERS_MAX = 200;
const PORTS = { "http:": 80, "https:": 443 } as const;

/**
 * Throws `permission_denied` for an address that is not allowed, `unavailable` without an answer, and
 * `deadline_exceeded` if the answer is late.
 */
export async function sendOnce(request: SingleRequest, options: OutwardOptions): Promise<SingleAnswer> {
  const { timeoutMs, clock } = options;
  const { url } = request;
  const late = () => new SvcError("deadline_exceeded", `${url.origin} did not answer within ${timeoutMs} ms`);
  const limit = deadline(clock, timeoutMs, late, options.signal);
  try {
    return await exchange(request, options, limit.signal);
  } catch (cause) {
    if (cause instanceof SvcError) throw cause;
    throw new SvcError("unavailable", `cannot reach ${url.origin}: ${messageOf(cause)}`, { cause });
  } finally {
    limit.done();
  }
}

async function exchange(
  request: SingleRequest,
  { addresses, resolve = systemAddresses }: OutwardOptions,
  signal: AbortSignal,
): Promise<SingleAnswer> {
  const { protocol, hostname, port } = request.url;
  if (!(protocol in PORTS)) {
    throw new SvcError("invalid_argument", `found a URL with ${protocol}, wanted http: or https:`);
  }

  const name = hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "");
  const found = isIP(name) === 0 ? await race(resolve(name), signal) : [name];
  const host = addresses.choose(name, found);
  const target = { host, port: Number(port || PORTS[protocol as keyof typeof PORTS]) };
  const servername = isIP(name) === 0 ? name : undefined;
  const socket: Socket = protocol === "https:"
    ? connectTls({ ...target, ...(servername ? { servername } : {}), ALPNProtocols: ["http/1.1"] })
    : connectNet(target);
  const answer = answerOf(socket);
  try {
    socket.write(headOf(request));
    if (request.body.length > 0) socket.write(request.body);
    return await race(answer, signal);
  } finally {
    answer.catch(() => {});
    socket.destroy();
  }
}

async function systemAddresses(host: string): Promise<string[]> {
  return (await lookup(host, { all: true })).map(({ address }) => address);
}

function headOf({ method, url, headers, body }: SingleRequest): Uint8Array {
  const lines = [
    `${method} ${url.pathname}${url.search} HTTP/1.1`,
    `Host: ${url.host}`,
    "Connection: close",
    ...(method === "POST" ? [`Content-Length: ${body.length}`] : []),
    ...headers.map(([name, value]) => `${name}: ${fieldText(value)}`),
  ];
  return Buffer.from(`${lines.join("\r\n")}\r\n\r\n`);
}

/** Makes a text safe for a header field, which must not contain control characters. */
function fieldText(value: string): string {
  // deno-lint-ignore no-control-regex
  return value.replace(/[\x00-\x1f\x7f]+/g, " ").trim();
}

/** The head of the answer; skips interim answers (1xx). */
function answerOf(socket: Socket): Promise<SingleAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<SingleAnswer>();
  let head = "";
  socket.on("data", (chunk: Uint8Array) => {
    head += Buffer.from(chunk).toString("latin1");
    for (let end = head.indexOf("\r\n\r\n"); end >= 0; end = head.indexOf("\r\n\r\n")) {
      const answer = parsedHead(head.slice(0, end));
      if (!answer) return reject(new SvcError("unavailable", "the answer is no HTTP/1.1"));
      if (answer.status >= 200) return resolve(answer);
      head = head.slice(end + 4);
    }
    if (head.length > HEAD_BYTES_MAX) {
      reject(
        new SvcError("unavailable", `the answer begins with more than ${HEAD_BYTES_MAX} bytes of headers`),
      );
    }
  });
  socket.on("error", reject);
  socket.on(
    "close",
    () => reject(new SvcError("unavailable", "the connection was closed without an answer")),
  );

  return promise;
}

function parsedHead(head: string): SingleAnswer | undefined {
  const [first = "", ...lines] = head.split("\r\n");
  const [, status] = /^HTTP\/1\.[01] (\d{3})(?: |$)/.exec(first) ?? [];
  if (status === undefined) return undefined;
  const headers = lines.slice(0, HEADERS_MAX).map((line) => {
    const colon = line.indexOf(":");
    return [line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim()] as const;
  });
  return { status: Number(status), headers: new Map(headers) };
}
