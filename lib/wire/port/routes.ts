/**
 * The pages of a port: their paths, and how requests and answers travel as streams.
 *
 * Owns the two pages of every port, `/` and `/restart_status`, and the answer to unknown paths.
 */

import { Buffer } from "node:buffer";
import { messageOf, SvcError } from "../../base/error.ts";
import { ByteQueue } from "../rpc/message_reader.ts";
import type { HeaderFields } from "../rpc/metadata.ts";
import { isOnThisMachine, type Peer } from "../rpc/service.ts";
import { fieldValue, type WebBody, type WebRequest, type WebResponse } from "./exchange.ts";
import { forAnySite } from "./sites.ts";
import type { Route, RouteAnswer, RouteRequest } from "./route.ts";

export interface RouteOptions {
  /** The answer of `GET /restart_status`, as JSON, for callers on this machine. */
  readonly restartStatus?: () => unknown;
  /** Further pages by path, `/files/*` for everything beneath a folder; each decides on its methods. */
  readonly routes?: ReadonlyMap<string, Route>;
}

/** Answers requests that are no calls. */
export class Routes {
  constructor(private readonly options: RouteOptions) {}

  /** Sends the given answer, or else that of the page. */
  open(request: WebRequest, response: WebResponse, given?: RouteAnswer): WebBody {
    const { method, fields, peer } = request;
    const [path, query] = split(request.target);
    const body = new RouteBody(request);
    const asked = {
      method,
      path,
      query: new URLSearchParams(query),
      fields,
      peer,
      body,
      signal: body.signal,
    };
    void (given ? Promise.resolve(given) : this.#answer(asked))
      .catch((error) => textAnswer(500, `cannot answer ${method} ${path}: ${messageOf(error)}`))
      .then((answer) => send(response, sendable(answer), asked))
      .finally(() => body.over());

    return body;
  }

  async #answer(request: RouteRequest): Promise<RouteAnswer> {
    const { method, path, peer } = request;
    const route = this.#routeFor(path);
    if (route) return await route(request);
    const isStatus = path === "/restart_status" && this.options.restartStatus !== undefined;
    if (isStatus && (method === "GET" || method === "HEAD")) return await this.#restartStatus(peer);
    return await forAnySite(() => this.#line(method, path, isStatus, request))(request);
  }

  /** The answers that reveal nothing of this program's state. */
  #line(method: string, path: string, isStatus: boolean, request: RouteRequest): RouteAnswer {
    const isPage = path === "/" || isStatus;
    if (isPage && method !== "GET" && method !== "HEAD") {
      return textAnswer(405, `${path} answers GET, not ${method}`);
    }
    if (path === "/") {
      return textAnswer(
        200,
        "This is svc-server, a machine; reach it with a client library at this address.",
      );
    }
    if (!/^\/[\w.]+\/\w+$/.test(path)) return textAnswer(404, `there is nothing at ${path}`);
    if (method !== "POST") {
      return textAnswer(405, `${path} looks like a gRPC method, which answers POST, not ${method}`);
    }

    const type = fieldValue(request.fields, "content-type") ?? "";
    if (type.startsWith("application/grpc")) {
      return textAnswer(415, "gRPC takes HTTP/2; over this connection use gRPC-web");
    }

    return textAnswer(
      415,
      `content type is "${type}", wanted application/grpc-web or application/grpc-web-text`,
    );
  }

  #routeFor(path: string): Route | undefined {
    const { routes } = this.options;
    const exact = routes?.get(path);
    if (exact) return exact;
    // Over the few folders with pages, because a caller's path may have ten thousand.
    let found: { readonly folder: string; readonly route: Route } | undefined;
    for (const [page, route] of routes ?? []) {
      if (!page.endsWith("/*")) continue;
      const folder = page.slice(0, -1);
      if (path.startsWith(folder) && folder.length > (found?.folder.length ?? 0)) found = { folder, route };
    }
    return found?.route;
  }

  async #restartStatus(peer: Peer): Promise<RouteAnswer> {
    if (!isOnThisMachine(peer)) {
      return textAnswer(403, "/restart_status answers only callers on the same machine");
    }
    return jsonAnswer(200, await this.options.restartStatus!());
  }
}

function split(target: string): [path: string, query: string] {
  const at = target.indexOf("?");
  return at < 0 ? [target, ""] : [target.slice(0, at), target.slice(at + 1)];
}

/** A line of text as the answer. */
export function textAnswer(status: number, line: string): RouteAnswer {
  return { status, contentType: "text/plain; charset=utf-8", body: `${line}\n` };
}

export function jsonAnswer(status: number, value: unknown, fields: HeaderFields = []): RouteAnswer {
  return { status, contentType: "application/json", body: JSON.stringify(value), fields };
}

/** HTTP/1.1 and HTTP/2 both refuse a message with such a value. */
const NOT_IN_VALUES = /[^\t\x20-\x7e\x80-\xff]/;

async function send(response: WebResponse, answer: RouteAnswer, request: RouteRequest): Promise<void> {
  const { body } = answer;
  const whole = typeof body === "string" || body instanceof Uint8Array ? Buffer.from(body) : undefined;
  try {
    response.start(answer.status, headOf(answer, whole?.length));
    if (request.method !== "HEAD") await sendBody(response, whole ?? body, request.signal);
    response.end();
  } catch {
    // The answer has started: breaking off shows that it is incomplete.
    response.abort();
  }
}

function headOf({ status, contentType, bytes, fields = [] }: RouteAnswer, length = bytes): HeaderFields {
  return [
    ["content-type", contentType],
    ...(length === undefined || status === 304
      ? []
      : [["content-length", String(length)] as [string, string]]),
    ["x-content-type-options", "nosniff"],
    ...fields,
  ];
}

/** The answer if its fields can be sent, because a page may repeat a text from outside. */
function sendable(answer: RouteAnswer): RouteAnswer {
  const wrong = headOf(answer).find(([, value]) => NOT_IN_VALUES.test(value));
  if (!wrong) return answer;
  return textAnswer(500, `the answer's ${wrong[0]} has a character that no header field may have`);
}

async function sendBody(
  response: WebResponse,
  body: RouteAnswer["body"],
  signal: AbortSignal,
): Promise<void> {
  if (typeof body === "string" || body instanceof Uint8Array) {
    if (body.length > 0) await response.send(Buffer.from(body));
    return;
  }
  for await (const chunk of body) {
    if (signal.aborted) return;
    await response.send(chunk);
  }
}

/** The body of a request to a page. */
class RouteBody implements WebBody, AsyncIterable<Uint8Array> {
  readonly #gone = new AbortController();
  readonly #waiting: ByteQueue;
  #ended = false;
  #over = false;
  #news = Promise.withResolvers<void>();

  constructor(private readonly request: WebRequest) {
    this.#waiting = new ByteQueue(request.allowance.authenticated);
  }

  get signal(): AbortSignal {
    return this.#gone.signal;
  }

  data(bytes: Uint8Array): void {
    if (this.#over) return this.request.taken(bytes.length);
    try {
      this.#waiting.append(bytes);
    } catch (error) {
      this.gone(SvcError.from(error));
    }
    this.#news.resolve();
  }

  ended(): void {
    this.#ended = true;
    this.#news.resolve();
  }

  gone(error: SvcError): void {
    this.over();
    this.#gone.abort(error);
    this.#news.resolve();
  }

  /** The reader has stopped. */
  over(): void {
    this.#over = true;
    const { length } = this.#waiting;
    this.#waiting.clear();
    if (length > 0) this.request.taken(length);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for (;;) {
      const { length } = this.#waiting;
      if (length > 0) {
        yield this.#waiting.take(length);
        this.request.taken(length);
        continue;
      }
      this.signal.throwIfAborted();
      if (this.#ended) return;
      this.#news = Promise.withResolvers();
      await this.#news.promise;
    }
  }
}
