/**
 * Reverse proxies that are trusted to name their callers.
 *
 * A proxy in front makes every caller come from the proxy's address. For connections from a trusted one, the field
 * `X-Forwarded-For` names the caller: its last address that is not itself a trusted proxy's, because anybody may write
 * the addresses before it. `X-Forwarded-Proto` says whether the caller used TLS. Fields of other callers count for
 * nothing.
 */

import { isIP } from "node:net";
import { AddressBlocks, unmapped } from "../../base/address/blocks.ts";
import type { Peer } from "./service.ts";

/** Longer chains are ignored. */
const HOPS_MAX = 32;

/** Header fields, as both HTTP versions deliver them. */
type Fields = readonly (readonly [name: string, value: string])[];

export class TrustedProxies extends AddressBlocks {
  /**
   * The caller behind `peer`, as a trusted proxy names it; `peer` itself if it is not such a proxy, or names nobody.
   */
  callerOf(peer: Peer, fields: Fields): Peer {
    if (!this.has(peer.remoteAddress)) return peer;
    const remoteAddress = this.#lastStranger(valuesOf(fields, "x-forwarded-for")) ?? peer.remoteAddress;
    const [scheme] = valuesOf(fields, "x-forwarded-proto").slice(-1);
    const secured = peer.origin !== undefined && (scheme === "https" || scheme === "http");
    const origin = secured ? peer.origin.replace(/^https?:/, `${scheme}:`) : peer.origin;
    // The port is the proxy's, and says nothing about the caller.
    const isOther = remoteAddress !== peer.remoteAddress;
    return {
      ...peer,
      remoteAddress,
      origin,
      ended: undefined,
      ...(isOther ? { remotePort: undefined } : {}),
    };
  }

  #lastStranger(chain: readonly string[]): string | undefined {
    let last: string | undefined;
    for (const written of chain.slice(-HOPS_MAX).toReversed()) {
      const address = unmapped(
        written.replace(/^\[(.*)\](?::\d+)?$/, "$1").replace(/^(\d+(?:\.\d+){3}):\d+$/, "$1"),
      );
      if (isIP(address) === 0) return last;
      last = address;
      if (!this.has(address)) return address;
    }
    return last;
  }
}

const FORWARDED = /^(?:via|forwarded|x-real-ip|x-forwarded-(?:for|host|proto))$/;

/** Whether a header field may show that a proxy has handed the call on. */
export function isForwarding(name: string): boolean {
  return FORWARDED.test(name);
}

/**
 * What a call's fields reveal of a proxy on its way, trusted or not. `addressed` is the address that the caller itself
 * names.
 */
export function forwardedBy(fields: Fields, addressed?: string): Pick<Peer, "addressed" | "forwardedFor"> {
  if (!fields.some(([name]) => isForwarding(name.toLowerCase()))) return { addressed };
  const [host] = valuesOf(fields, "x-forwarded-host");
  const [scheme = "http"] = valuesOf(fields, "x-forwarded-proto");
  const callers = ["x-forwarded-for", "x-real-ip"].flatMap((name) => valuesOf(fields, name).slice(-1));
  const isHandedOn = valuesOf(fields, "via").length > 0 ||
    valuesOf(fields, "forwarded").some((value) => /(?:^|;)\s*(?:for|by)=/i.test(value));
  return {
    addressed: addressed ?? (host === undefined ? undefined : `${scheme}://${host}`),
    forwardedFor: callers[0] ?? (isHandedOn ? "" : undefined),
  };
}

function valuesOf(fields: Fields, name: string): string[] {
  return fields.filter(([key]) => key.toLowerCase() === name)
    .flatMap(([, value]) => value.split(",")).map((value) => value.trim()).filter(Boolean);
}
