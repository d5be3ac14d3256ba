/**
 * Browsers send requests for the pages of any site that a person visits, also to ports that only this computer
 * reaches. These rules say which sites may read or send what.
 */

import { fieldValue } from "./exchange.ts";
import type { Route, RouteRequest } from "./routes.ts";

/** Lets the scripts of every site read an answer. */
export const ANY_SITE: [string, string] = ["access-control-allow-origin", "*"];

const HERE = /^(?:localhost|[\w-]+\.localhost|127(?:\.\d{1,3}){3}|\[[0-9a-f:.]+\]|\d{1,3}(?:\.\d{1,3}){3})$/;

/** A page that the scripts of every site may read. It decides by its links, or by header fields, who gets what. */
export function forAnySite(route: Route): Route {
  return async (request) => {
    const answer = await route(request);
    return { ...answer, fields: [...answer.fields ?? [], ANY_SITE] };
  };
}

/**
 * Whether a browser sends this request for a page of another site. Other programs send none of these fields, and a
 * page of the same site needs no such answer.
 */
export function isFromOtherSite({ fields, peer }: Pick<RouteRequest, "fields" | "peer">): boolean {
  const [site, origin] = [fieldValue(fields, "sec-fetch-site"), fieldValue(fields, "origin")];
  if (site !== undefined && site !== "none" && site !== "same-origin") return true;
  return origin !== undefined && origin !== peer.origin;
}

/**
 * Whether a request names this computer by an address or as `localhost`. Any other name may be one that a site has
 * pointed at this computer, so that the browser takes the answer for the site's own ("DNS rebinding").
 */
export function namesThisComputer({ peer: { origin } }: Pick<RouteRequest, "peer">): boolean {
  if (origin === undefined) return true;
  return URL.canParse(origin) && HERE.test(new URL(origin).hostname);
}
