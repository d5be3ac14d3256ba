/**
 * What an installer on a new device asks: the script itself, and the credentials of the part that it is to be.
 *
 * The scripts are for everybody; in them stands where they came from. Credentials are for who has an API key that may
 * be that part.
 */

import { type Code, messageOf, SvcError } from "../base/error.ts";
import { field, type Route, type RouteAnswer } from "../wire/grpc_web.ts";
import type { Peer } from "../wire/service.ts";
import type { CloudContext } from "./context.ts";
import type { Identify } from "./downloads.ts";

/** Stands in the scripts for the address of the control plane. */
const ROOT_MARK = "@ROOT_URL@";
const CONFIG_PATH = "/api/json1/config";
const STATUS: { readonly [C in Code]?: number } = { unauthenticated: 401, permission_denied: 403 };

/** `scripts`: their texts by the path they are served at. */
export function installPages(
  cloud: CloudContext,
  identify: Identify,
  scripts: ReadonlyMap<string, string>,
): Map<string, Route> {
  const origin = (peer: Peer) => cloud.publicUrl ?? peer.origin ?? "http://localhost";
  const pages = new Map<string, Route>([[CONFIG_PATH, async ({ query, fields, peer }) => {
    try {
      const entity = await identify(fields);
      const id = query.get("id") ?? "";
      if (!await cloud.access.may(entity, "operator", { kind: "part", id })) {
        throw new SvcError("permission_denied", `this needs an API key that is operator of part "${id}"`);
      }
      const api_key = { id: entity, key: field(fields, "key") };
      return page(
        200,
        "application/json",
        JSON.stringify({ cloud: { app_address: origin(peer), id, api_key } }),
      );
    } catch (error) {
      return page(STATUS[SvcError.from(error).code] ?? 500, "text/plain", `${messageOf(error)}\n`);
    }
  }]]);
  for (const [path, text] of scripts) {
    pages.set(
      path,
      ({ peer }) => page(200, "text/plain; charset=utf-8", text.replaceAll(ROOT_MARK, origin(peer))),
    );
  }
  return pages;
}

function page(status: number, contentType: string, body: string): RouteAnswer {
  return { status, contentType, body, fields: [["cache-control", "no-store"]] };
}
