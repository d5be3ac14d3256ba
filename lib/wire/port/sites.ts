/**
 * Browsers send requests for the pages of any site that a person visits, also to ports that only this computer
 * reaches. These rules say which sites may read or send what.
 */

import { fieldValue } from "./exchange.ts";
import type { Route, RouteRequest } from "./route.ts";

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
 * Whether a page of this server, or a program that is not a browser, sends this request. A browser states the relation
 * of the sites in a field that scripts cannot set, which holds behind a TLS proxy, too. Without that field, as at an
 * address without TLS, its `origin` decides.
 */
export function isFromOwnPage({ fields, peer }: Pick<RouteRequest, "fields" | "peer">): boolean {
  const [site, origin] = [fieldValue(fields, "sec-fetch-site"), fieldValue(fields, "origin")];
  return site === undefined ? origin === undefined || origin === peer.origin : site === "same-origin";
}

/**
 * Whether a request names this computer by an address or as `localhost`. Any other name may be one that a site has
 * pointed at this computer, so that the browser takes the answer for the site's own ("DNS rebinding").
 */
export function namesThisComputer({ peer: { origin } }: Pick<RouteRequest, "peer">): boolean {
  if (origin === undefined) return true;
  return URL.canParse(origin) && HERE.test(new URL(origin).hostname);
}

/** Which callers over gRPC-web, preflights of browsers included, are answered. */
export type Sites = (request: Pick<RouteRequest, "fields" | "peer">) => boolean;

/** For ports that ask for a key: no site has a key, unless a person enters one. */
export const anySite: Sites = () => true;

/** For ports without keys whose callers are programs with gRPC. */
export const noSite: Sites = () => false;

/** Hosts of private networks: private addresses, names without dots, names of local networks. */
const NEAR =
  /^(?:[\w-]+|.+\.(?:localhost|local|localdomain|lan|home|internal|home\.arpa)|(?:127|10)(?:\.\d+){3}|192\.168(?:\.\d+){2}|169\.254(?:\.\d+){2}|172\.(?:1[6-9]|2\d|3[01])(?:\.\d+){2}|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])(?:\.\d+){2}|\[(?:::1|f[cd][0-9a-f]{2}:.*|fe[89ab][0-9a-f]:.*)\])$/;
const ADDRESS = /^(?:\[.*\]|\d+(?:\.\d+){3})$/;

/**
 * For ports that everybody on the local network may call without a key. A site on the internet is not local, although
 * the browser that shows it is. Pages of files and of sandboxes (`null`) may come from anywhere.
 */
export function nearSites(names: () => readonly string[]): Sites {
  return ({ fields, peer }) => {
    const origin = fieldValue(fields, "origin");
    if (origin === undefined) return true;
    if (!URL.canParse(origin)) return false;
    const { protocol, hostname } = new URL(origin);
    // Apps made of web pages have schemes of their own.
    if (protocol !== "http:" && protocol !== "https:") return true;
    const isOwn = origin === peer.origin && ADDRESS.test(hostname);
    return isOwn || NEAR.test(hostname) || names().some((name) => name.toLowerCase() === hostname);
  };
}
