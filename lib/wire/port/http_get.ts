/**
 * One `GET` of a page on the same computer: HTTP/1.1, or HTTP/2 if the server answers only that.
 *
 * Certificates are not checked, because a machine's certificate names the machine and not this address. Never follows
 * a redirection.
 */

import * as http from "node:http";
import type { IncomingMessage, RequestOptions } from "node:http";
import * as https from "node:https";
import { connect as connectNet } from "node:net";
import { connect as connectTls } from "node:tls";
import type { Duplex } from "node:stream";
import { type Clock, deadline, race } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import type { HeaderFields } from "../rpc/metadata.ts";
import { Connection } from "../http2/connection.ts";

export interface Page {
  readonly status: number;
  readonly body: string;
}

const BODY_BYTES_MAX = 1024 * 1024;
/** Share of the time for HTTP/1.1 before it tries HTTP/2. */
const FIRST_SHARE = 0.5;

/** Throws `unavailable` without an answer, `deadline_exceeded` if it does not come in time. */
export async function getPage(
  url: string,
  clock: Clock,
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<Page> {
  const limit = (ms: number, parent?: AbortSignal) =>
    deadline(
      clock,
      ms,
      () => new SvcError("deadline_exceeded", `${url} did not answer within ${ms} ms`),
      parent,
    );
  const whole = limit(timeoutMs, signal);
  const first = limit(timeoutMs * FIRST_SHARE, whole.signal);
  try {
    return await exchange(clock, url, 1, first.signal).catch((error) => {
      if (whole.signal.aborted) throw error;
      return exchange(clock, url, 2, whole.signal);
    });
  } finally {
    first.done();
    whole.done();
  }
}

async function exchange(clock: Clock, url: string, version: 1 | 2, signal: AbortSignal): Promise<Page> {
  const end = new AbortController();
  const page = version === 1 ? overHttp1(url, end.signal) : overHttp2(clock, url, end.signal);
  try {
    return await race(page, signal);
  } catch (cause) {
    if (cause instanceof SvcError) throw cause;
    throw new SvcError("unavailable", `cannot ask ${url}: ${messageOf(cause)}`, { cause });
  } finally {
    page.catch(() => {});
    end.abort();
  }
}

async function overHttp1(url: string, signal: AbortSignal): Promise<Page> {
  const { get } = url.startsWith("https:") ? https : http;
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const request = get(url, { rejectUnauthorized: false, agent: false, signal } as RequestOptions, resolve);
  request.on("error", reject);
  const response = await promise;
  const decoder = new TextDecoder();
  let [body, bytes] = ["", 0];
  for await (const chunk of response as AsyncIterable<Uint8Array>) {
    bytes += chunk.length;
    if (bytes > BODY_BYTES_MAX) throw tooLarge(url);
    body += decoder.decode(chunk, { stream: true });
  }
  return { status: response.statusCode ?? 0, body };
}

function overHttp2(clock: Clock, url: string, signal: AbortSignal): Promise<Page> {
  const { protocol, hostname, port, host, pathname, search } = new URL(url);
  const secure = protocol === "https:";
  const target = { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port || (secure ? 443 : 80)) };
  const socket: Duplex = secure
    ? connectTls({ ...target, ALPNProtocols: ["h2"], rejectUnauthorized: false })
    : connectNet(target);
  const { promise, resolve, reject } = Promise.withResolvers<Page>();
  const connection = new Connection(socket, { role: "client", clock, closed: reject });
  signal.addEventListener("abort", () => connection.destroy(new SvcError("canceled", `${url} was given up`)));

  const decoder = new TextDecoder();
  let [status, body, bytes] = [0, "", 0];
  const request: HeaderFields = [
    [":method", "GET"],
    [":scheme", protocol.slice(0, -1)],
    [":path", pathname + search],
    [":authority", host],
  ];
  connection.request(request, true, {
    headers: (fields) => void (status ||= Number(new Map(fields).get(":status"))),
    data: (chunk) => {
      bytes += chunk.length;
      if (bytes > BODY_BYTES_MAX) return reject(tooLarge(url));
      body += decoder.decode(chunk, { stream: true });
    },
    ended: () => resolve({ status, body }),
    closed: (error) => error && reject(error),
  });

  return promise;
}

function tooLarge(url: string): SvcError {
  return new SvcError("resource_exhausted", `${url} answers with more than ${BODY_BYTES_MAX} bytes`);
}
