/**
 * Outgoing connections through a proxy: which proxy the environment names for an address, and how to connect through
 * it.
 *
 * `HTTPS_PROXY` and `HTTP_PROXY` (by the scheme of the address), then `ALL_PROXY`, then `SOCKS_PROXY`, in capitals or
 * small letters; `NO_PROXY` lists the hosts that are reached directly, and this computer always is. The proxy resolves
 * names. Input from a proxy has a named limit, and no error contains its password.
 */

import { Buffer } from "node:buffer";
import { connect, isIP, type Socket } from "node:net";
import { zoneOf } from "../../base/address/link_local.ts";
import { type Clock, deadline, race, SystemClock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { Secret } from "../../base/secret.ts";
import { allProxyOf } from "../../base/native/environment.ts";

export interface HostPort {
  /** Without brackets. */
  readonly host: string;
  readonly port: number;
}

export interface Proxy extends HostPort {
  readonly kind: "http" | "socks5";
  /** The variable that names it. */
  readonly variable: string;
  readonly user: string;
  readonly password: Secret;
}

export type Variables = (name: string) => string | undefined;

const HEAD_BYTES_MAX = 16 * 1024;
/**
 * A proxy that is there accepts, and answers a greeting of SOCKS5, without asking anybody. Shorter than the limits of
 * most calls, so that their error names the proxy.
 */
const GREETING_MS = 8_000;
const DEFAULT_PORTS: Readonly<Record<string, number>> = { http: 80, socks5: 1080 };

/** The proxy for an address; `undefined` for a direct connection. Throws `invalid_argument` for an unusable setting. */
export function proxyOf(target: HostPort, secure: boolean, env: Variables): Proxy | undefined {
  if (isDirect(target, valueOf("NO_PROXY", env)?.[1] ?? "")) return undefined;
  for (const name of [secure ? "HTTPS_PROXY" : "HTTP_PROXY", "ALL_PROXY", "SOCKS_PROXY"]) {
    const found = valueOf(name, env);
    if (!found) continue;
    // The program itself has set it, for its own fetch.
    const isDerived = name === "ALL_PROXY" && found[1] === allProxyOf(env);
    const socks = isDerived ? valueOf("SOCKS_PROXY", env) : undefined;
    return parseProxy(...socks ?? found, name === "SOCKS_PROXY" || socks ? "socks5" : "http");
  }
  return undefined;
}

/** The host to which a program connects for an address `https://host:port`: the address's own, or the proxy. */
export function firstHopOf(address: string, env: Variables): HostPort {
  // A URL of the system has no interface in its address.
  const [, zone = ""] = /\[[^\]%]*(%[^\]]*)\]/.exec(address) ?? [];
  const url = new URL((/^\w+:\/\//.test(address) ? address : `https://${address}`).replace(zone, ""));
  const secure = url.protocol !== "http:";
  const target = { host: `${bare(url.hostname)}${zone}`, port: Number(url.port || (secure ? 443 : 80)) };
  try {
    const { host, port } = proxyOf(target, secure, env) ?? target;
    return { host, port };
  } catch {
    return target;
  }
}

function valueOf(name: string, env: Variables): readonly [name: string, value: string] | undefined {
  for (const one of [name.toLowerCase(), name]) {
    const value = env(one)?.trim();
    if (value) return [one, value];
  }
  return undefined;
}

function parseProxy(name: string, text: string, scheme: string): Proxy {
  const wanted =
    "wanted http://host:port or socks5://host:port, with user:password@ before the host if needed";
  // The error does not show the value, which may contain a password.
  const problem = (why: string) =>
    new SvcError("invalid_argument", `the variable ${name} is unusable: ${why}, ${wanted}`);
  let url: URL;
  try {
    url = new URL(/^[a-z][a-z\d+.-]*:\/\//i.test(text) ? text : `${scheme}://${text}`);
  } catch {
    throw problem("it is no address");
  }

  const named = url.protocol.slice(0, -1);
  const kind = named === "socks5h" || named === "socks" ? "socks5" : named;
  if (kind !== "http" && kind !== "socks5") throw problem(`found a proxy of the kind "${named}"`);
  if (url.hostname === "") throw problem("it names no host");

  return {
    kind,
    variable: name,
    host: bare(url.hostname),
    port: Number(url.port || DEFAULT_PORTS[kind]),
    user: decoded(url.username),
    password: new Secret(decoded(url.password)),
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function bare(hostname: string): string {
  return hostname.replace(/^\[|\]$/g, "");
}

/** Whether `NO_PROXY` names the host: its name, a domain of it, its address, a network, `*`, each also with a port. */
function isDirect({ host, port }: HostPort, list: string): boolean {
  const name = host.toLowerCase().replace(/\.$/, "");
  if (name === "localhost" || name.endsWith(".localhost") || name === "::1" || /^127\./.test(name)) {
    return true;
  }
  // No proxy knows the interfaces of this computer.
  if (zoneOf(host)) return true;
  return list.split(/[\s,]+/).some((entry) => {
    // The last part of an IPv6 address without brackets is not a port.
    const [, pattern = entry, only] = (isIP(entry) === 0 && /^(.*?[^:]|\[.*\]):(\d+)$/.exec(entry)) || [];
    if (only !== undefined && Number(only) !== port) return false;
    const wanted = pattern.toLowerCase().replace(/[[\]]/g, "").replace(/^\*?\./, "");
    if (wanted === "") return false;
    if (wanted === "*" || wanted === name) return true;
    if (isIP(name) === 0) return name.endsWith(`.${wanted}`);
    return isInNetwork(name, wanted);
  });
}

function isInNetwork(address: string, network: string): boolean {
  const [base = "", bits] = network.split("/");
  const [a, b] = [bitsOf(address), bitsOf(base)];
  if (a === undefined || b?.length !== a.length) return false;
  // One address has several spellings.
  const length = bits === undefined ? a.length : Number(bits);
  if (!(length >= 0)) return false;
  return a.slice(0, length) === b.slice(0, length);
}

/** The bits of an address as text. */
function bitsOf(address: string): string | undefined {
  if (isIP(address) === 4) {
    return address.split(".").map((byte) => Number(byte).toString(2).padStart(8, "0")).join("");
  }
  if (isIP(address) !== 6) return undefined;
  const [head, tail] = address.split("::");
  const groups = (text?: string) => text ? text.split(":") : [];
  const [first, last] = [groups(head), groups(tail)];
  const zeros = tail === undefined ? 0 : 8 - first.length - last.length;
  return [...first, ...Array.from({ length: Math.max(0, zeros) }, () => "0"), ...last]
    .map((group) => parseInt(group, 16).toString(2).padStart(16, "0")).join("");
}

/**
 * A connection to `target` through the proxy. Throws `unavailable` if the proxy cannot be reached, is none of its kind or
 * refuses; `unauthenticated` if it wants other credentials. The caller limits the time of the whole with the signal.
 */
export async function connectThrough(
  proxy: Proxy,
  target: HostPort,
  signal: AbortSignal,
  clock: Clock = new SystemClock(),
): Promise<Socket> {
  const socket = connect({ host: proxy.host, port: proxy.port });
  const stop = () => socket.destroy();
  signal.addEventListener("abort", stop, { once: true });

  const reader = new HeadReader(socket, proxy, clock);
  try {
    signal.throwIfAborted();
    if (proxy.kind === "http") await openTunnel(socket, reader, proxy, target);
    else await openSocks(socket, reader, proxy, target);
    signal.throwIfAborted();
    reader.release();
    return socket;
  } catch (error) {
    reader.release();
    socket.on("error", () => {});
    socket.destroy();
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

/** What to try with a proxy that does not speak as its setting says. */
const OTHER_KIND: Readonly<Record<Proxy["kind"], string>> = {
  http: "; if it is a SOCKS5 proxy, its address begins with socks5://",
  socks5: "; if it is an HTTP proxy, its address begins with http://",
};

/** Reads the proxy's answers, and leaves what follows them in the socket. */
class HeadReader {
  readonly #name: string;
  /** Until the proxy has shown that it is one of its kind. */
  #hint: string;
  #bytes = Buffer.alloc(0);
  #error: SvcError | undefined;
  #wake = () => {};

  constructor(private readonly socket: Socket, proxy: Proxy, private readonly clock: Clock) {
    this.#name = `the proxy ${authorityOf(proxy)} of ${proxy.variable}`;
    this.#hint = OTHER_KIND[proxy.kind];
    socket.on("data", this.#onData).on("error", this.#onError).on("close", this.#onClose);
  }

  async connected(): Promise<void> {
    if (this.socket.connecting) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      this.socket.once("connect", resolve);
      await this.within(promise, "accepts no connection");
    }
    if (this.#error) throw this.#error;
  }

  /** The proxy speaks as its setting says: what it answers from now on is its own verdict. */
  recognized(): void {
    this.#hint = "";
  }

  /** `answer`, unless the proxy takes too long for what it does by itself. */
  async within<T>(answer: Promise<T>, problem: string): Promise<T> {
    const late = () => this.foreign(`${problem} for ${GREETING_MS / 1000} s`);
    const limit = deadline(this.clock, GREETING_MS, late);
    try {
      return await race(answer, limit.signal);
    } finally {
      limit.done();
    }
  }

  /**
   * Reads until `lengthOf` can say how many of the bytes belong together, and takes those; it returns `undefined` as
   * long as there are too few.
   */
  async take(lengthOf: (bytes: Buffer) => number | undefined): Promise<Buffer> {
    for (;;) {
      const length = lengthOf(this.#bytes);
      if (length !== undefined && length <= this.#bytes.length) {
        const taken = this.#bytes.subarray(0, length);
        this.#bytes = this.#bytes.subarray(length);
        return taken;
      }
      if (this.#bytes.length > HEAD_BYTES_MAX) throw this.foreign("its answer is too long");
      if (this.#error) throw this.#error;
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      await promise;
    }
  }

  failed(why: string, code: "unavailable" | "unauthenticated" = "unavailable", cause?: unknown): SvcError {
    return new SvcError(code, `${this.#name}: ${why}`, { cause });
  }

  /** The same for what a proxy of another kind would do. */
  foreign(why: string): SvcError {
    return this.failed(`${why}${this.#hint}`);
  }

  release(): void {
    this.socket.off("data", this.#onData).off("error", this.#onError).off("close", this.#onClose);
    this.socket.pause();
    if (this.#bytes.length > 0) this.socket.unshift(this.#bytes);
  }

  readonly #onData = (chunk: Buffer) => {
    this.#bytes = Buffer.concat([this.#bytes, chunk]);
    this.#wake();
  };
  readonly #onError = (error: Error) => {
    this.#error ??= this.failed("cannot be reached: correct or unset the variable", "unavailable", error);
    this.#wake();
  };
  readonly #onClose = () => {
    this.#error ??= this.foreign("it ended the connection");
    this.#wake();
  };
}

function authorityOf({ host, port }: HostPort): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}

async function openTunnel(socket: Socket, reader: HeadReader, proxy: Proxy, target: HostPort): Promise<void> {
  const authority = authorityOf(target);
  const { user, password } = proxy;
  const credentials = Buffer.from(`${user}:${password.reveal()}`).toString("base64");
  const lines = [
    `CONNECT ${authority} HTTP/1.1`,
    `Host: ${authority}`,
    ...user === "" ? [] : [`Proxy-Authorization: Basic ${credentials}`],
  ];
  await reader.connected();
  socket.write(`${lines.join("\r\n")}\r\n\r\n`);

  const head = await reader.take((bytes) => {
    const at = bytes.indexOf("\r\n\r\n");
    return at < 0 ? undefined : at + 4;
  });
  const [first = ""] = head.toString("latin1").split("\r\n", 1);
  const status = Number(/^HTTP\/1\.\d (\d{3})/.exec(first)?.[1]);
  if (status >= 200 && status < 300) return;

  // Tinyproxy answers wrong credentials with 401.
  if (status === 407 || (status === 401 && user !== "")) {
    const hint = user === "" ? "it wants a user and a password" : "it refuses the user or the password";
    throw reader.failed(`${hint} (${status})`, "unauthenticated");
  }

  if (Number.isNaN(status)) throw reader.foreign("it does not speak HTTP");
  throw reader.failed(`it answers ${status}, asked for a connection to ${authority}`);
}

/** Answers of RFC 1928. */
const SOCKS_ANSWERS: readonly string[] = [
  "",
  "it failed",
  "its rules forbid it",
  "the network cannot be reached",
  "the host cannot be reached",
  "the connection was refused",
  "the time ran out",
  "it knows no such command",
  "it knows no such kind of address",
];

async function openSocks(socket: Socket, reader: HeadReader, proxy: Proxy, target: HostPort): Promise<void> {
  const [user, password] = [Buffer.from(proxy.user), Buffer.from(proxy.password.reveal())];
  await reader.connected();
  socket.write(Buffer.from(user.length === 0 ? [5, 1, 0] : [5, 2, 0, 2]));

  const [version, method] = await reader.within(reader.take(() => 2), "it answers no greeting of SOCKS5");
  if (version !== 5) throw reader.foreign("it does not speak SOCKS5");
  reader.recognized();

  if (method === 2 && user.length > 0) {
    if (user.length > 255 || password.length > 255) {
      throw reader.failed("the user or the password is too long");
    }
    socket.write(
      Buffer.concat([Buffer.from([1, user.length]), user, Buffer.from([password.length]), password]),
    );
    const [, code] = await reader.take(() => 2);
    if (code !== 0) throw reader.failed("it refuses the user or the password", "unauthenticated");
  } else if (method !== 0) throw reader.failed("it wants a user and a password", "unauthenticated");

  socket.write(Buffer.concat([Buffer.from([5, 1, 0]), socksAddressOf(target, reader)]));
  const answer = await reader.take((bytes) => {
    if (bytes.length < 5) return undefined;
    if (bytes[3] === 1) return 10;
    return bytes[3] === 4 ? 22 : 7 + bytes.readUInt8(4);
  });
  const code = answer.readUInt8(1);
  if (code === 0) return;

  const why = SOCKS_ANSWERS[code] ?? `it answers ${code}`;
  throw reader.failed(`${why}, asked for a connection to ${authorityOf(target)}`);
}

/** The name travels as it is: the proxy resolves it. */
function socksAddressOf({ host, port }: HostPort, reader: HeadReader): Buffer {
  const end = Buffer.from([port >> 8, port & 255]);
  if (isIP(host) === 4) return Buffer.concat([Buffer.from([1, ...host.split(".").map(Number)]), end]);
  if (isIP(host) === 6) {
    const bits = bitsOf(host)!;
    return Buffer.concat([Buffer.from([4, ...bits.match(/.{8}/g)!.map((byte) => parseInt(byte, 2))]), end]);
  }
  const name = Buffer.from(host);
  if (name.length > 255) throw reader.failed("the host's name is too long");
  return Buffer.concat([Buffer.from([3, name.length]), name, end]);
}
