/**
 * Answers everything except gRPC proper: calls of gRPC-web, pages, and cross-origin requests of browsers.
 */

import { CODES } from "../../base/error.ts";
import { encodeStatusText } from "../rpc/message.ts";
import type { ServiceTable } from "../rpc/service.ts";
import { fieldValue, type WebBody, type WebRequest, type WebResponse } from "./exchange.ts";
import { isGrpcWeb, openWebCall } from "./grpc_web.ts";
import { type RouteOptions, Routes, textAnswer } from "./routes.ts";
import { ANY_SITE, anySite, type Sites } from "./sites.ts";
import type { HeaderFields } from "../rpc/metadata.ts";
import type { RouteAnswer } from "./route.ts";

const PREFLIGHT_SECONDS = 7200;
const ORIGIN_CHARS_MAX = 100;

export class WebServer {
  readonly #routes: Routes;

  constructor(
    private readonly table: ServiceTable,
    options: RouteOptions,
    private readonly sites: Sites = anySite,
  ) {
    this.#routes = new Routes(options);
  }

  open(request: WebRequest, response: WebResponse): WebBody {
    const { method, fields } = request;
    const type = fieldValue(fields, "content-type") ?? "";
    const isCall = method === "POST" && isGrpcWeb(type);
    if ((isCall || method === "OPTIONS") && !this.sites(request)) {
      return this.#routes.open(request, response, refusal(fields));
    }
    if (method === "OPTIONS") return preflight(fields, response);
    if (isCall) return openWebCall(this.table, type, request, response);
    return this.#routes.open(request, response);
  }
}

const IGNORED: WebBody = { data() {}, ended() {}, gone() {} };

/** A port without keys: whoever can send a request could do everything. */
function refusal(fields: HeaderFields): RouteAnswer {
  const origin = fieldValue(fields, "origin") ?? "web pages";
  const why = `this port takes no calls from ${origin.slice(0, ORIGIN_CHARS_MAX)}: it asks nobody for a key`;
  // Clients read these fields of any answer. The status tells the page that no key would help.
  const status = String(CODES.failed_precondition);
  const answer: [string, string][] = [["grpc-status", status], ["grpc-message", encodeStatusText(why)]];
  return { ...textAnswer(403, why), fields: answer };
}

/** Allows pages to call: tokens decide who may do what, and browsers do not add them by themselves. */
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
