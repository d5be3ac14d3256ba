/**
 * Dials a machine: by its address, by its multicast DNS name, or over WebRTC through a signaling server. The caller
 * gets a channel, and need not know which of them worked.
 *
 * `host:port` and `unix:/path` are dialed directly. A name without a port is looked up on the networks of this
 * computer, then at the signaling server, and is finally dialed directly; the options enable each of these methods.
 * The code for each of them is loaded on its first use.
 *
 * The room owns the one client for machines: how it dials them, and how it keeps a connection.
 */

import { isIP } from "node:net";
import type { Clock } from "../../base/clock.ts";
import { chainOf, type Code, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import type { Channel } from "../rpc/channel.ts";
import { connectGrpc, type GrpcOptions } from "../grpc/grpc_channel.ts";
import type { MdnsNetwork } from "../mdns/links.ts";
import { Metadata } from "../rpc/metadata.ts";
import { type Credentials, RenewedToken } from "./renewed_token.ts";

/** Error codes of a signaling server that refuses these credentials; no other method is tried with them. */
const REFUSED: readonly Code[] = ["unauthenticated", "permission_denied"];

export interface SignalingServer {
  /** `host:port` */
  readonly address: string;
  readonly tls?: GrpcOptions["tls"];
}

export interface DialOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Uses TLS; a machine found by its name presents a certificate for that name. */
  readonly tls?: GrpcOptions["tls"];
  /** Exchanged for a token, sent with every call: at the machine, or at the signaling server. */
  readonly credentials?: Credentials;
  /** Searches names on the networks of this computer, or on others. */
  readonly mdns?: "system" | MdnsNetwork;
  /** Asked at each attempt. */
  readonly signaling?: () => SignalingServer | undefined;
  readonly signal: AbortSignal;
  /** Called when the connection has ended, on either side. */
  readonly lost?: () => void;
  readonly connect?: (address: string, options: GrpcOptions) => Channel;
}

/** A connection to a machine. */
export interface Dialed {
  readonly channel: Channel;
  /** Sent with every call; changes apply to later calls. */
  readonly header: Metadata;
  readonly by: "address" | "multicast DNS" | "WebRTC";
  /** Why the method that was tried first failed. */
  readonly instead?: string;
}

/**
 * Rejects with the error of the last method: `unavailable` without an answer, `unauthenticated` for wrong
 * credentials.
 */
export async function dial(address: string, options: DialOptions): Promise<Dialed> {
  if (!isName(address)) return await direct(address, "address", options);
  const near = await nearby(address, options);
  if (near !== undefined) {
    const tls = options.tls && { serverName: address, ...options.tls };
    return await direct(near, "multicast DNS", { ...options, tls });
  }
  const found = await throughSignaling(address, options);
  if (found && !(found instanceof SvcError)) return found;
  const instead = found && chainOf(found);
  try {
    return { ...await direct(address, "address", options), instead };
  } catch (error) {
    throw withBothWays(error, instead);
  }
}

/** The error of the last method, with the reason why the one before it failed. */
export function withBothWays(error: unknown, instead: string | undefined): unknown {
  return instead === undefined
    ? error
    : new SvcError(SvcError.from(error).code, `${chainOf(error)}; ${instead}`, { cause: error });
}

/** Whether an address has no port. */
function isName(address: string): boolean {
  return /^[a-z0-9._-]+$/i.test(address) && address !== "localhost" && isIP(address) === 0;
}

/** The address of the machine with this name on a network of this computer. */
async function nearby(
  name: string,
  { mdns, clock, logger, signal }: DialOptions,
): Promise<string | undefined> {
  if (!mdns) return undefined;
  const [{ lookUp }, { SYSTEM_NETWORK }] = await Promise.all([
    import("../mdns/browser.ts"),
    import("../mdns/links.ts"),
  ]);
  const network = mdns === "system" ? SYSTEM_NETWORK : mdns;
  const found = await lookUp({ network, clock, logger, signal }, name);
  const [host] = found?.addresses ?? [];
  if (!found || host === undefined) return undefined;
  return `${host.includes(":") ? `[${host}]` : host}:${found.port}`;
}

async function direct(address: string, by: Dialed["by"], options: DialOptions): Promise<Dialed> {
  const { clock, tls, lost, credentials, signal, connect = connectGrpc } = options;
  const header = new Metadata();
  const channel = connect(address, { clock, tls, header, lost });
  try {
    if (!credentials) return { channel, header, by };
    const token = new RenewedToken(channel, credentials, clock);
    await token.issue(signal);
    return { channel: token.renewed(), header, by };
  } catch (error) {
    channel.close();
    throw error;
  }
}

/** `undefined` without a signaling server; an error if this host cannot be reached through it. */
async function throughSignaling(host: string, options: DialOptions): Promise<Dialed | SvcError | undefined> {
  const { clock, credentials, signal, lost, connect = connectGrpc } = options;
  const signaling = options.signaling?.();
  if (!signaling) return undefined;

  const { dialWebRtc } = await import("../signaling/dialer.ts");
  const channel = connect(signaling.address, { clock, tls: signaling.tls, proxied: true });
  try {
    const token = credentials && new RenewedToken(channel, credentials, clock);
    await token?.issue(signal);
    const dialed = await dialWebRtc({
      signaling: token?.renewed() ?? channel,
      host,
      clock,
      signal,
      lost: () => lost?.(),
    });
    const header = new Metadata();
    return { channel: withHeader(dialed, header), header, by: "WebRTC" };
  } catch (thrown) {
    signal.throwIfAborted();
    const { code } = SvcError.from(thrown);
    const error = new SvcError(code, `cannot connect through ${signaling.address}`, { cause: thrown });
    if (REFUSED.includes(code)) throw error;
    return error;
  } finally {
    channel.close();
  }
}

/** The same channel with an additional header for each call. */
function withHeader(channel: Channel, header: Metadata): Channel {
  return {
    call: (method, requests, options = {}) =>
      channel.call(method, requests, {
        ...options,
        header: Metadata.from([...header, ...options.header ?? []]),
      }),
    close: () => channel.close(),
  };
}
