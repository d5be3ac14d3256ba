/**
 * The addresses of this control plane for scripts, links and credentials.
 *
 * It gives the operator's configured addresses if there are any. Otherwise a caller gets back only an address that is
 * known to be this computer: loopback, its own name, or the address of the connection, with the connection's port. Any
 * other Host header could be made up by the caller, and an installer that runs as root would use it.
 *
 * The room owns the addresses of the control plane, and the certificate of its port.
 */

import { SvcError } from "../../base/error.ts";
import type { LoopbackProxies } from "../../base/host.ts";
import { shownUrl } from "../../base/log/shown_url.ts";
import { isOnThisMachine, type Peer } from "../../wire/rpc/service.ts";
import { notedSetting, noteSetting } from "../store/settings.ts";
import type { Sql, Store } from "../store/store.ts";
import { withoutEnd } from "../../base/escape.ts";

const HOST = /^(?:[a-z0-9](?:[a-z0-9._-]{0,252}[a-z0-9])?|\[[0-9a-f:.]{2,45}\])$/;
const URL_CHARS_MAX = 512;
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;

/** Limit of connections whose other end is remembered. */
const CONNECTIONS_MAX = 1_000;

/** The key under which commands find the address for people and machines. */
const NOTE = "address";

export class Addresses {
  readonly #configured: readonly string[];

  /** Whether a proxy made a connection from this computer, by connection. */
  readonly #proxies = new Map<string, Promise<boolean>>();

  /**
   * `configured`: public URLs, the main one first. `hostname`: the name of this computer. Throws `invalid_argument`.
   */
  constructor(
    configured: readonly string[] = [],
    private readonly hostname = "",
    private readonly host?: LoopbackProxies,
  ) {
    this.#configured = configured.map(checkedAddress);
  }

  /** The configured public address. */
  get main(): string | undefined {
    return this.#configured[0];
  }

  /** The names and IP addresses in the configured addresses. */
  get hosts(): string[] {
    return this.#configured.map((one) => new URL(one).hostname.replace(/^\[|\]$/g, ""));
  }

  /** The configured address with the caller's host and port, else the main one. */
  configuredFor(peer: Peer): string | undefined {
    return this.#sameHost(askedBy(peer)) ?? this.main;
  }

  /**
   * The address for a script or configuration that runs elsewhere. Throws `failed_precondition` if none is configured
   * and the caller's address may not be this computer's.
   */
  async ownFor(peer: Peer): Promise<string> {
    const asked = askedBy(peer);
    if (this.main !== undefined) return this.#sameHost(asked) ?? this.main;
    const isOwn = asked && isPortOf(asked, peer) && this.#isThisComputer(asked.hostname, peer);
    if (isOwn && !await this.#isOfProxy(asked, peer)) return asked.origin;
    throw new SvcError(
      "failed_precondition",
      "this control plane does not know the requested address as its own: start svc-cloud serve with " +
        "--public-url and the address that devices use",
    );
  }

  /**
   * The address for an answer that only an authenticated caller gets: the address that the caller used. Throws
   * `invalid_argument` if that cannot be an address.
   */
  async linkFor(peer: Peer): Promise<string> {
    const asked = askedBy(peer);
    if (this.main !== undefined) return this.#sameHost(asked) ?? this.main;
    if (peer.origin === undefined) return "http://localhost";
    const addressed = wellFormed(peer.addressed);
    const isLoopback = asked !== undefined && LOOPBACK.test(asked.hostname);
    // A proxy on this computer that passes on the address at which it reaches this server itself.
    const isProxys = isLoopback && (addressed ? !LOOPBACK.test(addressed.hostname) : isElsewhere(peer));
    const isOthers = !asked || isProxys || isUpstream(asked, peer);
    const isLocal = addressed !== undefined && LOOPBACK.test(addressed.hostname);
    if (!isOthers && (isLocal || !await this.#isOfProxy(asked, peer))) return asked.origin;
    if (addressed?.pathname === "/" && !isUpstream(addressed, { ...peer, localPort: undefined })) {
      return addressed.origin;
    }
    // The usual cause is a proxy that passes on the name of its own upstream, or none.
    throw new SvcError(
      "failed_precondition",
      "the Host header is not an address at which a device reaches this control plane: start svc-cloud serve " +
        "with --public-url and the address that devices use",
    );
  }

  /**
   * Whether a proxy reaches this server at this address of this computer, while the caller is elsewhere: the header
   * shows a proxy, or a proxy is at the other end of the connection.
   */
  async #isOfProxy(asked: URL, peer: Peer): Promise<boolean> {
    const isWord = !/[.:]/.test(asked.hostname);
    if (!isPortOf(asked, peer) || !(isWord || this.#isThisComputer(asked.hostname, peer))) return false;
    if (peer.forwardedFor !== undefined) return !isOnThisMachine({ remoteAddress: peer.forwardedFor });
    return LOOPBACK.test(asked.hostname) && await this.#isProxy(peer);
  }

  #isProxy({ remoteAddress, remotePort, localAddress, localPort }: Peer): Promise<boolean> {
    const isKnown = remoteAddress && remotePort && localAddress && localPort;
    if (!this.host || !isKnown) return Promise.resolve(false);
    const connection = `${remoteAddress} ${remotePort} ${localPort}`;
    const known = this.#proxies.get(connection);
    if (known) return known;
    const [own, other] = [{ address: localAddress, port: localPort }, {
      address: remoteAddress,
      port: remotePort,
    }];
    const found = this.host.isLoopbackProxy({ own, other }).catch(() => false);
    if (this.#proxies.size >= CONNECTIONS_MAX) this.#proxies.clear();
    this.#proxies.set(connection, found);
    return found;
  }

  /** The configured address with the caller's host and port; the scheme may be a proxy's. */
  #sameHost(asked: URL | undefined): string | undefined {
    return asked && this.#configured.find((one) => new URL(one).host === asked.host);
  }

  #isThisComputer(host: string, { localAddress }: Peer): boolean {
    if (LOOPBACK.test(host) || (this.hostname !== "" && host === this.hostname.toLowerCase())) return true;
    const address = localAddress?.replace(/^::ffff:/, "").replace(/%.*$/, "");
    return address !== undefined && (host === address || host === `[${address}]`);
  }
}

/**
 * Whether an address is the name of this server in the settings of a proxy: not a host name, or a single word with
 * another port than that of the connection.
 */
function isUpstream(asked: URL, peer: Peer): boolean {
  const { hostname } = asked;
  if (hostname.includes("_") || hostname === "undefined") return true;
  const isWord = !/[.:]/.test(hostname) && hostname !== "localhost";
  return isWord && asked.port === "" && !isPortOf(asked, peer);
}

/** Whether a caller is known to be on another computer. */
function isElsewhere(peer: Peer): boolean {
  return peer.remoteAddress !== undefined && !isOnThisMachine(peer);
}

/** Whether an address has the port of the connection: another port may be another user's program. */
function isPortOf({ port, protocol }: URL, { localPort }: Peer): boolean {
  const asked = Number(port || (protocol === "https:" ? 443 : 80));
  return localPort === undefined || asked === localPort;
}

/** A public URL as it is written into scripts. Throws `invalid_argument`. */
export function checkedAddress(text: string): string {
  const url = wellFormed(withoutEnd(text.trim(), "/"));
  if (url?.pathname === "/") return url.origin;
  throw new SvcError(
    "invalid_argument",
    `--public-url: found ${
      JSON.stringify(shownUrl(text))
    }, wanted http:// or https:// with a host, and a port if need be, such as ` +
      "https://cloud.example.com; gRPC has no room for a path, so a proxy has to forward a host or port of its own",
  );
}

/** Stores the address of this control plane for commands. */
export async function noteAddress(store: Store, address: string): Promise<void> {
  await store.transaction((sql) => noteSetting(sql, NOTE, address));
}

/** The address last stored for the control plane of this database. */
export async function notedAddress(sql: Sql): Promise<string | undefined> {
  return await notedSetting(sql, NOTE);
}

/** A text as one PowerShell string; PowerShell treats typographic quotes as quotes. */
export function powershellQuoted(text: string): string {
  return `'${text.replace(/['\u2018-\u201b]/g, "$&$&")}'`;
}

/** The address that the caller used, if it is well-formed. */
function askedBy({ origin }: Peer): URL | undefined {
  const url = wellFormed(origin);
  return url?.pathname === "/" ? url : undefined;
}

/** A URL that consists of a scheme, a plain host, a port and a path only. */
function wellFormed(text: string | undefined): URL | undefined {
  if (text === undefined || text.length > URL_CHARS_MAX || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  const plain = url.username === "" && url.password === "" && url.search === "" && url.hash === "";
  // An address that the parser changes (white space, a lone "?") is not well-formed.
  const same = /^https?:\/\/[^\s?#@\\]+$/i.test(text);
  const web = url.protocol === "http:" || url.protocol === "https:";
  return web && plain && same && HOST.test(url.hostname) ? url : undefined;
}
