/**
 * The STUN and TURN servers of a peer, as the addon takes them.
 *
 * The addon asks one STUN server and two TURN servers, takes them at random from those that it is given, and does
 * without if one of these does not answer. So of more servers, it is given those that answer. A TURN server over TCP or
 * TLS, which it does not know, has a stand-in.
 */

import { type Clock, SystemClock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { openUdp, type UdpSocket } from "../../base/udp.ts";
import { readStunAnswer, stunRequest } from "./stun.ts";
import { openStreamRelay, type StreamRelay } from "./turn_stream.ts";

/** Servers that tell a peer its public address (STUN) or relay for it (TURN), in WebRTC's notation. */
export interface IceServer {
  /** `stun:host:port`, `turn:host:port?transport=udp`, `turns:host:port` */
  readonly urls: readonly string[];
  readonly username?: string;
  readonly credential?: string;
}

/** A server in the addon's notation. */
export type NativeServer = string | NativeTurnServer;

interface NativeTurnServer {
  readonly hostname: string;
  readonly port: number;
  readonly username?: string;
  readonly password?: string;
  readonly relayType: "TurnUdp";
}

export interface ChosenServers {
  readonly servers: readonly NativeServer[];
  /** Ends the stand-ins. */
  close(): void;
}

/** TURN servers that the addon asks. */
const TURN_SERVERS = 2;
/** Servers of a kind that are asked whether they answer. */
const ASKED_MAX = 8;
/** They are asked so often, at this interval: datagrams get lost. */
const ASKS = 3;
const ASK_MS = 150;

const SERVER = /^(stuns?|turns?):(\[[^\]]+\]|[^:?[\]]+)(?::(\d{1,5}))?(?:\?transport=(udp|tcp))?$/i;

interface Parsed {
  readonly kind: "stun" | "turn";
  readonly transport: "udp" | "tcp" | "tls";
  /** Without brackets. */
  readonly host: string;
  readonly port: number;
}

/** `undefined` for what nobody here can use: an unknown notation, STUN over anything but UDP, TURN over DTLS. */
function parsed(url: string): Parsed | undefined {
  const [, scheme = "", host = "", given, way] = SERVER.exec(url) ?? [];
  if (host === "") return undefined;
  const isSecure = /s$/i.test(scheme);
  const port = given ?? (isSecure ? "5349" : "3478");
  const transport = way ?? (isSecure ? "tcp" : "udp");
  const isUdp = transport.toLowerCase() === "udp";
  const kind = /^stun/i.test(scheme) ? "stun" : "turn";
  if (isUdp ? isSecure : kind === "stun") return undefined;
  const server = { host: host.replace(/[[\]]/g, ""), port: Number(port) };
  if (server.port > 65_535) return undefined;
  if (isUdp) return { kind, transport: "udp", ...server };
  return { kind, transport: isSecure ? "tls" : "tcp", ...server };
}

/** What `chooseServers` uses; exported for its tests. */
export interface ChoiceParts {
  readonly clock: Clock;
  readonly openRelay: typeof openStreamRelay;
}

/**
 * Chooses from the servers, and opens the stand-ins. `failed` is called with what is wrong with one. Never rejects: a
 * peer can do without servers.
 */
export async function chooseServers(
  all: readonly IceServer[],
  failed: (error: SvcError) => void,
  { clock, openRelay }: ChoiceParts = { clock: new SystemClock(), openRelay: openStreamRelay },
): Promise<ChosenServers> {
  const known = all.map((server) => ({ server, at: server.urls.flatMap((url) => parsed(url) ?? []) }));
  const overUdp = (wanted: Parsed["kind"]) =>
    known.flatMap(({ server, at }) =>
      at.filter(({ kind, transport }) => kind === wanted && transport === "udp")
        .map(({ host, port }) => ({ host, port, server }))
    );
  const streams = known.map(({ server, at }) => ({
    server,
    at: at.filter(({ transport }) => transport !== "udp"),
  }))
    .filter(({ at }) => at.length > 0);
  const stuns = overUdp("stun"), turns = overUdp("turn");
  // One of either kind: the addon takes the better way, and where no UDP passes there is the other one.
  const udpPlaces = streams.length > 0 ? TURN_SERVERS - 1 : TURN_SERVERS;
  const [stun, turn] = await Promise.all([answering(stuns, 1, clock), answering(turns, udpPlaces, clock)]);
  const relays: StreamRelay[] = [];
  const servers: NativeServer[] = [
    ...stun.map(({ host, port }) => `stun:${host.includes(":") ? `[${host}]` : host}:${port}`),
    ...turn.map(({ host, port, server }) => turnAt(host, port, server)),
  ];
  for (const { server, at } of streams.slice(0, TURN_SERVERS - turn.length)) {
    const ends = at.map(({ host, port, transport }) => ({ host, port, secure: transport === "tls" }));
    const relay = await openRelay(ends, failed).catch((error) => void failed(SvcError.from(error)));
    if (!relay) continue;
    relays.push(relay);
    servers.push(turnAt(relay.host, relay.port, server));
  }
  return { servers, close: () => relays.forEach((relay) => relay.close()) };
}

function turnAt(hostname: string, port: number, { username, credential }: IceServer): NativeTurnServer {
  return { hostname, port, username, password: credential, relayType: "TurnUdp" };
}

/**
 * As many of the servers as wanted: those that answer first, then the first ones. Asks nobody if there are no more than
 * that.
 */
async function answering<T extends { readonly host: string; readonly port: number }>(
  servers: readonly T[],
  wanted: number,
  clock: Clock,
): Promise<T[]> {
  if (servers.length <= wanted) return [...servers];
  const asked = new Map<string, T>();
  const found = new Set<T>();
  const enough = new AbortController();
  const received = (bytes: Uint8Array) => {
    const server = asked.get(readStunAnswer(bytes)?.id ?? "");
    if (server) found.add(server);
    if (found.size >= wanted) enough.abort();
  };
  const sockets: UdpSocket[] = [];
  try {
    const v4 = await openUdp(received);
    sockets.push(v4);
    const isV6 = ({ host }: T) => host.includes(":");
    const v6 = servers.some(isV6)
      ? await openUdp(received, { host: "::", port: 0 }).catch(() => undefined)
      : undefined;
    if (v6) sockets.push(v6);
    for (let turn = 0; turn < ASKS && found.size === 0; turn++) {
      for (const server of servers.slice(0, ASKED_MAX)) {
        const { id, bytes } = stunRequest();
        asked.set(id, server);
        // A name that nobody knows, a network that is away: no answer.
        (isV6(server) ? v6 : v4)?.send(server.host, server.port, bytes).catch(() => {});
      }
      await clock.sleep(ASK_MS, enough.signal).catch(() => {});
    }
  } catch {
    // There is no socket; the addon may have more luck.
  } finally {
    for (const socket of sockets) socket.close();
  }
  return [...found, ...servers.filter((one) => !found.has(one))].slice(0, wanted);
}
