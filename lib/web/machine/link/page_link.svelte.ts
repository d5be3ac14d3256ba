/**
 * The connection of this page to its machine, over WebRTC or directly, made again whenever it is lost.
 *
 * The published browser library makes each connection; this class chooses the way, watches the connection by a small
 * call whose time it measures, and begins anew with a fresh client. It does not use the library's own repetition,
 * which gives up, and whose direct way refuses addresses without "local" in them.
 */

import { Code, ConnectError } from "@connectrpc/connect";
import { ConnectionClosedError, type Credentials, RobotClient } from "@viamrobotics/sdk";
import { getContext, setContext } from "svelte";
import { ownAddress, ownPath, storedName } from "../../shared/own_place.ts";
import { problemText } from "../../shared/problem_text.ts";
import { forgetKey, keyCredentials, type SignInKey, storedKey, storeKey } from "../../shared/credentials.ts";
import { endWithConnection } from "./ending_transport.ts";
import { type HeldIds, moveInSession } from "./moving_session.ts";

export type LinkState = "connecting" | "connected" | "lost" | "signed_out";
export type LinkKind = "webrtc" | "direct";

const WEBRTC_MS = 5000;
const DIRECT_MS = 5000;
const PING_EVERY_MS = 2000;
const PING_MS = 6000;
const RETRY_FIRST_MS = 400;
const RETRY_MAX_MS = 5000;
/** A machine that answers at all stops within this time; then STOP goes another way, too. */
const STOP_MS = 1000;
const WAY_STORED = "svc-way";

/** The way that the person prefers: `auto` tries WebRTC first. */
export type Way = "auto" | LinkKind;

/** Which machine the page shows, and how it is reached. */
export interface LinkTarget {
  /** For people. */
  readonly title: string;
  /** The address that answers calls and signaling: the machine itself, or its control plane. */
  readonly address: string;
  /** The machine's name at the signaling server. */
  readonly host: string;
  readonly ways: readonly LinkKind[];
  /** Somebody who has signed in elsewhere, and the way back there. */
  readonly signedIn?: {
    /** `the key 1234` */
    readonly who: string;
    readonly credentials: () => Credentials;
    readonly leave: () => void;
  };
}

/** The machine that has served this page. */
function thisMachine(): LinkTarget {
  const { host } = location;
  const title = ownPath() === "/" ? host : `${host}${ownPath()}`;
  return { title, address: ownAddress(), host, ways: ["webrtc", "direct"] };
}

export class PageLink {
  state = $state<LinkState>("connecting");
  kind = $state<LinkKind>();
  rttMs = $state<number>();
  /** Why there is no connection, or why the key was refused. */
  problem = $state<string>();
  /** The present client; a new one after each reconnection. */
  client = $state.raw<RobotClient>();
  /** Whether the machine asks for a key. */
  guarded = $state(false);
  way = $state<Way>(storedWay());

  readonly target: LinkTarget;
  #key: SignInKey | undefined;
  /** Grows with every connection and every end of one, so that those before can tell. */
  #epoch = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #stopping = new Set<() => void>();
  readonly holds: HeldIds = new Map();

  constructor(target: LinkTarget = thisMachine()) {
    this.target = target;
    this.#key = target.signedIn ? undefined : storedKey();
  }

  get address(): string {
    return this.target.address;
  }

  /** Whether the page comes from the machine itself, and not from its control plane. */
  get isOwn(): boolean {
    return this.target.signedIn === undefined;
  }

  get isConnected(): boolean {
    return this.state === "connected";
  }

  get key(): SignInKey | undefined {
    return this.#key;
  }

  /** `the key 1234`; `undefined` at a machine that asks for none. */
  get who(): string | undefined {
    return this.target.signedIn?.who ?? (this.#key && `the key ${this.#key.id}`);
  }

  /** Connects, and stays connected until the page ends. */
  start(): void {
    void this.#connect(0);
    addEventListener("online", () => this.state === "lost" && this.#again(0, 0));
    addEventListener("pagehide", () => void this.client?.disconnect());
    addEventListener("unhandledrejection", (event) => {
      // A connection that closes before it was offered: the library waits for it later, if at all.
      if (event.reason instanceof ConnectionClosedError) event.preventDefault();
    });
  }

  signIn(key: SignInKey, stays: boolean): void {
    this.#key = key;
    storeKey(key, stays);
    this.#again(0, 0);
  }

  signOut(): void {
    if (this.target.signedIn) return this.target.signedIn.leave();
    this.#key = undefined;
    forgetKey();
    this.#end();
    this.state = "signed_out";
    this.problem = undefined;
  }

  /** Connects anew by another way. */
  choose(way: Way): void {
    this.way = way;
    try {
      localStorage.setItem(storedName(WAY_STORED), way);
    } catch {
      // It holds for this page.
    }
    this.#again(0, 0);
  }

  /** Calls `stop` at each STOP, for what a person holds; returns the end of it. */
  onStop(stop: () => void): () => void {
    this.#stopping.add(stop);
    return () => void this.#stopping.delete(stop);
  }

  /**
   * Stops everything that moves: over the connection, and past it if that is silent or there is none, because a broken
   * connection is noticed only after seconds.
   */
  async stopAll(): Promise<void> {
    const over = this.client?.stopAll();
    over?.catch(() => {});
    for (const stop of this.#stopping) stop();
    const isAnswered = over?.then(() => true, () => false) ?? false;
    const late = new Promise<false>((resolve) => setTimeout(resolve, STOP_MS, false));
    if (await Promise.race([isAnswered, late])) return;
    try {
      await Promise.any([...over ? [over] : [], this.#stopAnew()]);
    } catch (error) {
      throw error instanceof AggregateError ? error.errors.at(-1) : error;
    }
  }

  /** Over a connection of its own: directly if that is possible, because it needs the fewest steps. */
  async #stopAnew(): Promise<void> {
    const way = this.target.ways.includes("direct") ? "direct" : "webrtc";
    const client = await dialBy(way, this.target, this.#credentials(), this.holds);
    try {
      await client.stopAll();
    } finally {
      client.disconnect().catch(() => {});
    }
  }

  /** The session has ended on the machine: the next call begins another one. */
  renewSession(): void {
    const sessions = (this.client as unknown as { sessionManager?: { reset(): void } })?.sessionManager;
    sessions?.reset();
  }

  #again(afterMs: number, attempt: number): void {
    this.#end();
    clearTimeout(this.#timer);
    this.state = attempt === 0 ? "connecting" : "lost";
    this.#timer = setTimeout(() => void this.#connect(attempt), afterMs);
  }

  #end(): void {
    this.#epoch++;
    this.rttMs = undefined;
    this.kind = undefined;
    const { client } = this;
    this.client = undefined;
    client?.disconnect().catch(() => {});
  }

  async #connect(attempt: number): Promise<void> {
    const epoch = ++this.#epoch;
    try {
      const { client, kind } = await this.#dial();
      if (epoch !== this.#epoch) return void client.disconnect();
      this.client = client;
      this.kind = kind;
      this.problem = undefined;
      this.guarded = this.who !== undefined;
      this.state = "connected";
      client.on("disconnected", () => this.#lost(epoch, "the connection was closed"));
      void this.#watch(client, epoch);
    } catch (error) {
      if (epoch !== this.#epoch) return;
      if (isRefusal(error) && this.isOwn) return this.#refused(error);
      this.problem = linkProblem(error);
      this.#again(Math.min(RETRY_FIRST_MS * 2 ** attempt, RETRY_MAX_MS), attempt + 1);
    }
  }

  async #dial(): Promise<{ client: RobotClient; kind: LinkKind }> {
    const failures: unknown[] = [];
    const { ways } = this.target;
    const chosen = ways.filter((kind) => this.way === "auto" || this.way === kind);
    for (const kind of chosen.length > 0 ? chosen : ways) {
      try {
        return { client: await dialBy(kind, this.target, this.#credentials(), this.holds), kind };
      } catch (error) {
        if (isRefusal(error)) throw error;
        failures.push(error);
      }
    }
    throw failures.at(-1);
  }

  #credentials(): Credentials | undefined {
    const key = this.#key;
    return this.target.signedIn?.credentials() ?? (key && keyCredentials(key));
  }

  #refused(error: ConnectError): void {
    this.#end();
    this.guarded = true;
    // The machine asks for a key, or no longer takes this one.
    this.problem = this.#key ? error.rawMessage : undefined;
    if (this.#key) forgetKey();
    this.#key = undefined;
    this.state = "signed_out";
  }

  /** Calls the machine now and then, to measure the time and to notice its end. */
  async #watch(client: RobotClient, epoch: number): Promise<void> {
    while (epoch === this.#epoch) {
      const startMs = performance.now();
      try {
        await client.robotService.getVersion({}, { timeoutMs: PING_MS });
        if (epoch !== this.#epoch) return;
        this.rttMs = performance.now() - startMs;
      } catch (error) {
        if (epoch !== this.#epoch) return;
        if (isRefusal(error) && this.isOwn) return this.#refused(error);
        return this.#lost(epoch, linkProblem(error));
      }
      await new Promise((resolve) => setTimeout(resolve, PING_EVERY_MS));
    }
  }

  #lost(epoch: number, problem: string): void {
    if (epoch !== this.#epoch) return;
    this.problem = problem;
    this.#again(RETRY_FIRST_MS, 1);
  }
}

async function dialBy(
  kind: LinkKind,
  { address, host }: LinkTarget,
  creds: Credentials | undefined,
  holds: HeldIds,
): Promise<RobotClient> {
  const isWebRtc = kind === "webrtc";
  const webrtc = {
    enabled: isWebRtc,
    host,
    signalingAddress: address,
    rtcConfig: {},
    noReconnect: true,
  };
  const client = new RobotClient(address, webrtc, undefined, { noReconnect: true });
  moveInSession(client, holds);
  const dialTimeout = isWebRtc ? WEBRTC_MS : DIRECT_MS;
  const dialing = client.connect(creds ? { creds, dialTimeout } : { dialTimeout });
  await withDeadline(dialing, dialTimeout, () => void client.disconnect().catch(() => {}));
  if (!isWebRtc) endWithConnection(client);
  return client;
}

async function withDeadline(work: Promise<void>, ms: number, giveUp: () => void): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new Error(`no connection within ${ms / 1000} s`));
      giveUp();
    }, ms);
  });
  work.catch(() => {});
  try {
    await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The machine asks for a key, or for another one; not: it asks for none, and takes no calls from pages of this name. */
function isRefusal(error: unknown): error is ConnectError {
  if (!(error instanceof ConnectError)) return false;
  const isOfSite = error.metadata.get("grpc-status") === String(Code.FailedPrecondition);
  return !isOfSite && [Code.Unauthenticated, Code.PermissionDenied].includes(error.code);
}

/** The reason in words, for people. */
export function linkProblem(error: unknown): string {
  if (error instanceof ConnectError) return error.rawMessage || "the machine does not answer";
  return problemText(error);
}

function storedWay(): Way {
  const wanted = new URLSearchParams(location.search).get("way") ?? stored();
  return wanted === "webrtc" || wanted === "direct" ? wanted : "auto";
}

function stored(): string | null {
  try {
    return localStorage.getItem(storedName(WAY_STORED));
  } catch {
    return null;
  }
}

const CONTEXT = Symbol("the connection");

export function provideLink(link: PageLink): PageLink {
  return setContext(CONTEXT, link);
}

/** The connection of the page; for the beginning of a component. */
export function useLink(): PageLink {
  return getContext<PageLink>(CONTEXT);
}
