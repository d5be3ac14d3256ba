/**
 * The captive portal: every request of a phone in the hotspot gets the page, which makes phones show it by themselves.
 * Only `POST /save` has an effect; it and the page's own links count as a person's activity.
 *
 * A body has at most 64 KiB; forms come from this page (a token in each proves it) and no more often than a person can
 * send them; no answer contains a password or credentials.
 */

import { Buffer } from "node:buffer";
import { randomBytes, timingSafeEqual } from "node:crypto";
import type { Clock } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { openPort, type Port } from "../../wire/port/port.ts";
import type { RouteAnswer, RouteRequest } from "../../wire/port/routes.ts";
import { ServiceTable } from "../../wire/service.ts";
import type { Intake } from "./intake.ts";
import { LOOK_PATH, page } from "./page.ts";

export interface PortalParts {
  readonly intake: Intake;
  readonly bind: { readonly host: string; readonly port: number };
  readonly clock: Clock;
  readonly logger: Logger;
}

const BODY_BYTES_MAX = 64 * 1024;
/** A person needs more than two seconds for a form; a few may submit at once. */
const SAVES_PER_MINUTE = 30;
const MINUTE_MS = 60_000;
const FORM_MS = 500;
const FIELDS = [
  ["cache-control", "no-store"],
  ["x-content-type-options", "nosniff"],
  ["x-frame-options", "DENY"],
  [
    "content-security-policy",
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'",
  ],
  ["referrer-policy", "no-referrer"],
] as const;

/** Opens the portal. Fails with `unavailable` if another program has the port. */
export async function openPortal(parts: PortalParts): Promise<Port> {
  const portal = new Portal(parts);
  return await openPort({
    bind: parts.bind,
    clock: parts.clock,
    logger: parts.logger,
    table: new ServiceTable(parts.clock),
    http: { routes: new Map([["/*", (request) => portal.answer(request)]]) },
  });
}

class Portal {
  readonly #token = randomBytes(18).toString("base64url");
  #saves: number[] = [];
  #joining: string | undefined;
  /** The recently rendered form, for repeated requests. */
  #form: { readonly body: string; readonly untilMs: number } | undefined;

  constructor(private readonly parts: PortalParts) {}

  async answer(request: RouteRequest): Promise<RouteAnswer> {
    const { method, path } = request;
    if (method === "GET" && path === LOOK_PATH) this.parts.intake.used();
    if (method === "GET" || method === "HEAD") return path === "/save" ? toFront() : this.#front();
    if (method === "POST" && path === "/save") return await this.#save(request);
    return method === "POST" ? toFront() : plain(405, `this page answers GET and POST, not ${method}`);
  }

  #front(): RouteAnswer {
    const { intake, clock } = this.parts;
    const joining = this.#joining;
    this.#joining = undefined;
    const errors = intake.errors();
    const nowMs = clock.monotonicMs();
    const isForm = joining === undefined && errors.length === 0;
    const known = isForm && this.#form && nowMs < this.#form.untilMs ? this.#form.body : undefined;
    const body = known ?? page({ device: intake.device(), errors, token: this.#token, joining });
    if (isForm && known === undefined) this.#form = { body, untilMs: nowMs + FORM_MS };
    return { status: 200, contentType: "text/html; charset=utf-8", body, fields: FIELDS };
  }

  async #save(request: RouteRequest): Promise<RouteAnswer> {
    this.#form = undefined;
    const { intake, clock, logger } = this.parts;
    const nowMs = clock.monotonicMs();
    this.#saves = this.#saves.filter((ms) => nowMs - ms < MINUTE_MS);
    if (this.#saves.length >= SAVES_PER_MINUTE) {
      return plain(429, "too many forms in one minute; wait a little");
    }
    this.#saves.push(nowMs);
    const form = await readForm(request.body);
    if (form === undefined) return plain(413, `a form has at most ${BODY_BYTES_MAX} bytes`);
    if (!this.#isOwn(form.get("token") ?? "")) {
      intake.tell("The form was too old. Please fill it in again.");
      return toFront();
    }
    try {
      this.#handIn(form);
    } catch (error) {
      intake.forget();
      const said = messageOf(error);
      intake.tell(`${said[0].toUpperCase()}${said.slice(1)}.`);
      if (!(error instanceof SvcError)) logger.error(`the portal could not take a form: ${said}`);
    }
    return toFront();
  }

  #handIn(form: URLSearchParams): void {
    const { intake } = this.parts;
    const { online, configured } = intake.device();
    const ssid = form.get("other")?.trim() || form.get("ssid") || "";
    if (!online) intake.network(ssid, form.get("password") ?? "");
    if (!configured) intake.credentials(form.get("viamconfig") ?? "");
    intake.done();
    this.#joining = online ? "" : ssid;
  }

  #isOwn(token: string): boolean {
    const [given, own] = [Buffer.from(token), Buffer.from(this.#token)];
    return given.length === own.length && timingSafeEqual(given, own);
  }
}

/** The fields of a form; `undefined` if it is too long. */
async function readForm(body: AsyncIterable<Uint8Array>): Promise<URLSearchParams | undefined> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    if ((bytes += chunk.length) > BODY_BYTES_MAX) return undefined;
    chunks.push(chunk);
  }
  return new URLSearchParams(Buffer.concat(chunks).toString("utf8"));
}

function toFront(): RouteAnswer {
  return {
    status: 303,
    contentType: "text/plain; charset=utf-8",
    body: "see /\n",
    fields: [["location", "/"], ["cache-control", "no-store"]],
  };
}

function plain(status: number, line: string): RouteAnswer {
  return { status, contentType: "text/plain; charset=utf-8", body: `${line}\n`, fields: FIELDS };
}
