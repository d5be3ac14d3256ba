/**
 * The captive portal: the setup page under the device's own address. Every other name redirects there, so that phones
 * show the page by themselves. Only `POST /save` has an effect; it and the page's own links count as a person's
 * activity.
 *
 * In the hotspot every name resolves to the device. If it served the page under every name, a site that is still open
 * on the phone would share the page's origin, and its scripts could read the form and send it.
 *
 * A body has at most 64 KiB; forms come from this page (a token in each proves it) and no more often than a person can
 * send them; no answer contains a password or credentials.
 */

import { Buffer } from "node:buffer";
import { randomBytes } from "node:crypto";
import type { Clock } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import { bytesUpTo } from "../../base/files/byte_reader.ts";
import type { Logger } from "../../base/log/log.ts";
import { isSameText } from "../../base/same_text.ts";
import { openPort, type Port } from "../../wire/port/port.ts";
import { isFromOtherSite } from "../../wire/port/sites.ts";
import { ServiceTable } from "../../wire/rpc/service.ts";
import type { ProvisioningSubmissions } from "./submissions.ts";
import { LOOK_PATH, page } from "./page.ts";
import type { RouteAnswer, RouteRequest } from "../../wire/port/route.ts";

export interface PortalParts {
  readonly submissions: ProvisioningSubmissions;
  readonly bind: { readonly host: string; readonly port: number };
  readonly clock: Clock;
  readonly logger: Logger;
}

const BODY_BYTES_MAX = 64 * 1024;
/** A person needs more than two seconds for a form; a few people may submit at once. */
const SAVES_PER_MINUTE = 30;
const MINUTE_MS = 60_000;
const FORM_MS = 500;
const FIELDS = [
  ["cache-control", "no-store"],
  ["x-frame-options", "DENY"],
  [
    "content-security-policy",
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'",
  ],
  // With "no-referrer", a browser would not name the origin of the form.
  ["referrer-policy", "same-origin"],
] as const;

/** Opens the portal. Fails with `unavailable` if another program has the port. */
export async function openPortal(parts: PortalParts): Promise<Port> {
  const portal = new Portal(parts);
  const port = await openPort({
    bind: parts.bind,
    clock: parts.clock,
    logger: parts.logger,
    table: new ServiceTable(parts.clock),
    http: { routes: new Map([["/*", (request) => portal.answer(request)]]) },
  });
  portal.url = new URL(port.url).href;
  return port;
}

class Portal {
  /** The page's address; the port is known once it is open. */
  url: string;
  readonly #token = randomBytes(18).toString("base64url");
  #saves: number[] = [];
  #joining: string | undefined;
  /** The recently rendered form, for repeated requests. */
  #form: { readonly body: string; readonly untilMs: number } | undefined;

  constructor(private readonly parts: PortalParts) {
    const { host, port } = parts.bind;
    this.url = new URL(`http://${host}:${port}`).href;
  }

  async answer(request: RouteRequest): Promise<RouteAnswer> {
    const { method, path } = request;
    const isLook = method === "GET" || method === "HEAD";
    if (!this.#isHere(request)) {
      return isLook ? leadTo(302, this.url) : plain(403, `this page is at ${this.url}`);
    }
    if (method === "POST" && isFromOtherSite(request)) return plain(403, "another site has sent this form");
    if (method === "GET" && path === LOOK_PATH) this.parts.submissions.userSeen();
    if (isLook) return path === "/save" ? leadTo(303, "/") : this.#front();
    if (method === "POST" && path === "/save") return await this.#save(request);
    return method === "POST" ? leadTo(303, "/") : plain(405, `this page answers GET and POST, not ${method}`);
  }

  /** Whether the request names the device's own address rather than a name, which a site could have. */
  #isHere({ peer: { origin = "" } }: RouteRequest): boolean {
    return URL.canParse(origin) && new URL(origin).href === this.url;
  }

  #front(): RouteAnswer {
    const { submissions, clock } = this.parts;
    const joining = this.#joining;
    this.#joining = undefined;
    const errors = submissions.errors();
    const nowMs = clock.monotonicMs();
    const isForm = joining === undefined && errors.length === 0;
    const known = isForm && this.#form && nowMs < this.#form.untilMs ? this.#form.body : undefined;
    const body = known ?? page({ device: submissions.device(), errors, token: this.#token, joining });
    if (isForm && known === undefined) this.#form = { body, untilMs: nowMs + FORM_MS };
    return { status: 200, contentType: "text/html; charset=utf-8", body, fields: FIELDS };
  }

  async #save(request: RouteRequest): Promise<RouteAnswer> {
    this.#form = undefined;
    const { submissions, clock, logger } = this.parts;
    const nowMs = clock.monotonicMs();
    this.#saves = this.#saves.filter((ms) => nowMs - ms < MINUTE_MS);
    if (this.#saves.length >= SAVES_PER_MINUTE) {
      return plain(429, "too many forms in one minute; wait a little");
    }
    this.#saves.push(nowMs);
    const form = await readForm(request.body);
    if (form === undefined) return plain(413, `a form has at most ${BODY_BYTES_MAX} bytes`);
    if (!isSameText(form.get("token") ?? "", this.#token)) {
      submissions.report("The form was too old. Please fill it in again.");
      return leadTo(303, "/");
    }
    try {
      this.#handIn(form);
    } catch (error) {
      submissions.forget();
      const problem = messageOf(error);
      submissions.report(`${problem.charAt(0).toUpperCase()}${problem.slice(1)}.`);
      if (!(error instanceof SvcError)) logger.error(`the portal could not take a form: ${problem}`);
    }
    return leadTo(303, "/");
  }

  #handIn(form: URLSearchParams): void {
    const { submissions } = this.parts;
    const { online, configured } = submissions.device();
    const ssid = nameIn(form, submissions.device().networks.map((one) => one.ssid));
    if (!online) submissions.network(ssid, form.get("password") ?? "");
    if (!configured) submissions.credentials(form.get("viamconfig") ?? "");
    submissions.submit();
    this.#joining = online ? "" : ssid;
  }
}

/**
 * The name of the network in a form. A name may begin or end with a space. A typed name loses these spaces only if a
 * network in range has the name without them.
 */
function nameIn(form: URLSearchParams, inRange: readonly string[]): string {
  const typed = form.get("other") ?? "";
  if (typed.trim() === "") return form.get("ssid") ?? "";
  return !inRange.includes(typed) && inRange.includes(typed.trim()) ? typed.trim() : typed;
}

/** The fields of a form; `undefined` if it is too long. */
async function readForm(body: AsyncIterable<Uint8Array>): Promise<URLSearchParams | undefined> {
  const bytes = await bytesUpTo(body, BODY_BYTES_MAX);
  return bytes && new URLSearchParams(Buffer.from(bytes).toString("utf8"));
}

function leadTo(status: 302 | 303, location: string): RouteAnswer {
  return {
    status,
    contentType: "text/plain; charset=utf-8",
    body: `see ${location}\n`,
    fields: [["location", location], ["cache-control", "no-store"]],
  };
}

function plain(status: number, line: string): RouteAnswer {
  return { status, contentType: "text/plain; charset=utf-8", body: `${line}\n`, fields: FIELDS };
}
