/**
 * The pages that an installer on a new device requests: the script, and the credentials of its part.
 *
 * The scripts are public, and run as root; they contain the address that they came from, as one quoted word and only
 * if it is an address of this control plane. Credentials need an API key of that machine.
 */

import { type Code, messageOf, SvcError } from "../../base/error.ts";
import { shellWord } from "../../base/escape.ts";
import { fieldValue } from "../../wire/port/exchange.ts";
import { powershellQuoted } from "../addresses/addresses.ts";
import type { CloudContext } from "../access/context.ts";
import type { Identify } from "./downloads.ts";
import type { Route, RouteAnswer } from "../../wire/port/route.ts";

/** Placeholder in the scripts, as a quoted word, for the control plane's address. */
const ROOT_MARK = "'@ROOT_URL@'";
/** Placeholder for the authority (PEM) that the device is to trust. */
const AUTHORITY_MARK = "'@AUTHORITY@'";
const CONFIG_PATH = "/api/json1/config";
const STATUS: { readonly [C in Code]?: number } = {
  unauthenticated: 401,
  permission_denied: 403,
  resource_exhausted: 429,
  // "Misdirected Request": the requested address is not this server's.
  failed_precondition: 421,
};

export interface InstallOptions {
  /** The scripts by the path they are served at. */
  readonly installers?: ReadonlyMap<string, string>;
  /** Whether the authority has signed the certificate of the port, so that the script can pin it. */
  readonly pinsAuthority?: boolean;
  /** PEM. */
  readonly authority: { readonly certificate: string };
}

export function installPages(
  cloud: CloudContext,
  identify: Identify,
  { installers = new Map(), pinsAuthority = false, authority }: InstallOptions,
): Map<string, Route> {
  const pages = new Map<string, Route>([[CONFIG_PATH, async ({ query, fields, peer }) => {
    try {
      const entity = await identify(fields, peer);
      const id = query.get("id") ?? "";
      if (!await cloud.access.may(entity, "machine_or_owner", { kind: "part", id })) {
        throw new SvcError(
          "permission_denied",
          "this needs the API key of the machine, or one that is owner of it",
        );
      }
      const api_key = { id: entity, key: fieldValue(fields, "key") };
      const app_address = await cloud.addresses.ownFor(peer);
      return page(200, "application/json", JSON.stringify({ cloud: { app_address, id, api_key } }));
    } catch (error) {
      return failure(error);
    }
  }]]);
  for (const [path, text] of installers) {
    const quoted = path.endsWith(".ps1") ? powershellQuoted : shellWord;
    pages.set(path, async ({ peer }) => {
      try {
        const root = quoted(await cloud.addresses.ownFor(peer));
        const pem = quoted(pinsAuthority ? authority.certificate.trim() : "");
        const script = text.replaceAll(ROOT_MARK, () => root).replaceAll(AUTHORITY_MARK, () => pem);
        return page(200, "text/plain; charset=utf-8", script);
      } catch (error) {
        return failure(error);
      }
    });
  }
  return pages;
}

/** A comment in every shell, because a user may run the answer without checking its status. */
function failure(error: unknown): RouteAnswer {
  const lines = messageOf(error).split(/[\r\n]+/).map((line) => `# ${line}\n`);
  return page(STATUS[SvcError.from(error).code] ?? 500, "text/plain; charset=utf-8", lines.join(""));
}

function page(status: number, contentType: string, body: string): RouteAnswer {
  return { status, contentType, body, fields: [["cache-control", "no-store"]] };
}
