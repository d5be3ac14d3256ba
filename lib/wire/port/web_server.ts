/**
 * Answers everything except gRPC proper: calls of gRPC-web, pages, and cross-origin requests of browsers.
 */

import type { ServiceTable } from "../service.ts";
import { fieldValue, type WebBody, type WebRequest, type WebResponse } from "./exchange.ts";
import { isGrpcWeb, openWebCall } from "./grpc_web.ts";
import { type RouteOptions, Routes } from "./routes.ts";
import { ANY_SITE } from "./sites.ts";
import type { HeaderFields } from "../http2/hpack.ts";

const PREFLIGHT_SECONDS = 7200;

export class WebServer {
  readonly #routes: Routes;

  constructor(private readonly table: ServiceTable, options: RouteOptions) {
    this.#routes = new Routes(options);
  }

  open(request: WebRequest, response: WebResponse): WebBody {
    const { method, fields } = request;
    if (method === "OPTIONS") return preflight(fields, response);
    const type = fieldValue(fields, "content-type") ?? "";
    if (method === "POST" && isGrpcWeb(type)) return openWebCall(this.table, type, request, response);
    return this.#routes.open(request, response);
  }
}

const IGNORED: WebBody = { data() {}, ended() {}, gone() {} };

/** Allows pages of every origin to call: tokens decide who may do what, and browsers do not add them by themselves. */
function preflight(fields: HeaderFields, response: WebResponse): WebBody {
  const answer: [string, string][] = [
    ANY_SITE,
    ["access-control-allow-methods", "GET, POST, OPTIONS"],
    // A wildcard would exclude `authorization`, so the requested fields are repeated.
    ["access-control-allow-headers", fieldValue(fields, "access-control-request-headers") ?? "*"],
    ["access-control-max-age", String(PREFLIGHT_SECONDS)],
    ["vary", "access-control-request-headers"],
  ];
  if (fieldValue(fields, "access-control-request-private-network") === "true") {
    answer.push(["access-control-allow-private-network", "true"]);
  }
  response.start(204, answer);
  response.end();
  return IGNORED;
}
