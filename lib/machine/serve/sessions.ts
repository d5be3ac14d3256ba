/**
 * Sessions: stop what a vanished client has left moving.
 *
 * A client with a session promises to send heartbeats within a window; every monitored call in the session counts as
 * one. Each type declares its monitored calls. The session that moved a resource last is responsible for it: when the
 * session expires, the resource is stopped. A session belongs to its owner alone: for others its id does not exist.
 */

import { type PoolHolder, SharedPool } from "../../base/async/shared_pool.ts";
import type { Clock } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { ResourceName } from "../../resource/name.ts";
import type { Resource } from "../../resource/resource.ts";
import { SESSION_ID } from "../../wire/dial/machine_link.ts";
import type { DescMethod, Message } from "../../wire/rpc/proto.ts";
import type { CallContext, Interceptor, Peer } from "../../wire/rpc/service.ts";
import { idFrom, parseId, resourceNamed } from "./call.ts";
import type { Machine } from "../graph/machine.ts";
import { stopActuators } from "../graph/stop.ts";

/** The key of the answer's header that names resources that the call moves besides the addressed one. */
const MONITORED_RESOURCE = "viam-smrn";

/** Limits of live sessions: of all, of one key, and of one address with it. */
const SESSION_SHARES = [1024, 512, 256];

interface Session {
  readonly id: string;
  readonly owner: string;
  readonly peer: Peer;
  windowMs: number;
  /** On the clock that never goes back. */
  deadlineMs: number;
  callOffExpiry: () => void;
  readonly place: PoolHolder;
}

export interface SessionsParts {
  readonly machine: Pick<Machine, "find" | "registry" | "apiOfService">;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly heartbeatWindowMs: number;
}

export class Sessions {
  /** Applies to sessions that start or resume from now on; the others keep the window that their clients know. */
  heartbeatWindowMs: number;
  readonly #machine: SessionsParts["machine"];
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #sessions = new Map<string, Session>();
  readonly #places: SharedPool;
  /** The session that moved a resource last, by full name; absent if none is responsible. */
  readonly #movers = new Map<string, Session>();
  readonly #monitored = new WeakMap<DescMethod, boolean>();
  readonly #stopping = new Set<Promise<void>>();

  constructor({ machine, clock, logger, heartbeatWindowMs }: SessionsParts) {
    this.#machine = machine;
    this.#clock = clock;
    this.#logger = logger;
    this.heartbeatWindowMs = heartbeatWindowMs;
    const levels = ["this machine", "one key", "one address"];
    this.#places = new SharedPool({ shares: SESSION_SHARES, levels, what: "sessions" }, clock);
  }

  /** The live sessions. */
  list(): { readonly id: string; readonly peer: Peer }[] {
    return [...this.#sessions.values()];
  }

  /** Starts a session of the caller's, or continues the one called `resume` if it still lives. Returns its id. */
  start(ctx: CallContext, resume: string): string {
    const resumed = resume === "" ? undefined : this.#find(ctx, parseId(resume, "the session to resume"));
    const windowMs = this.heartbeatWindowMs;
    if (resumed) {
      resumed.windowMs = windowMs;
      this.#heartbeat(resumed);
      return resumed.id;
    }

    const id = crypto.randomUUID();
    const owner = ownerOf(ctx);
    // A session that gives way ends as one whose client is lost: what it moved stops.
    const place = this.#places.take([owner, ctx.peer.remoteAddress ?? ""], () => {
      session.callOffExpiry();
      this.#expire(session);
    });
    const session: Session = {
      id,
      owner,
      peer: ctx.peer,
      windowMs,
      deadlineMs: 0,
      callOffExpiry: () => {},
      place,
    };
    this.#sessions.set(id, session);
    this.#heartbeat(session);

    this.#watch(session, windowMs);
    return id;
  }

  /**
   * A heartbeat. Throws `invalid_argument` SESSION_EXPIRED for a session that does not exist, or is not the caller's.
   */
  heartbeat(ctx: CallContext, id: string): void {
    this.#heartbeat(this.#living(ctx, parseId(id, "the session")));
  }

  readonly interceptor: Interceptor = (ctx, request) => {
    if (!this.#isMonitored(ctx.method)) return;
    const session = this.#sessionOf(ctx);
    if (request) this.#moves(ctx, request, session);
    // A bidirectional call names its resource later, and the session may have ended by then.
    else {void ctx.firstRequest.then((first) => {
        if (!first) return;
        if (session && !this.#sessions.has(session.id)) ctx.cancel(expired());
        else this.#moves(ctx, first, session);
      });}
  };

  #moves(ctx: CallContext, request: Message, session: Session | undefined): void {
    const name = this.#addressed(ctx.method, request);
    if (!name) return;
    if (session) this.#movers.set(name.full, session);
    else this.#movers.delete(name.full);
  }

  /**
   * For a handler that moves a resource on behalf of another's caller: makes the caller's session responsible for
   * `name` too, and says so in the answer's header. Call it before the first answer.
   */
  alsoMoves(ctx: CallContext, name: ResourceName): void {
    ctx.responseHeader.append(MONITORED_RESOURCE, name.full);
    const session = this.#sessionOf(ctx);
    if (session) this.#movers.set(name.full, session);
  }

  /** Forgets all sessions without stopping anything; resolves when stops under way have ended. */
  async close(): Promise<void> {
    for (const session of this.#sessions.values()) {
      session.callOffExpiry();
      session.place.release();
    }
    this.#sessions.clear();
    this.#movers.clear();
    await Promise.all(this.#stopping);
  }

  /** The session of a call, if it names one. */
  #sessionOf(ctx: CallContext): Session | undefined {
    const id = idFrom(ctx.requestHeader, SESSION_ID);
    if (id === undefined) return undefined;
    const session = this.#living(ctx, id);
    this.#heartbeat(session);
    return session;
  }

  #living(ctx: CallContext, id: string): Session {
    const session = this.#find(ctx, id);
    if (!session) throw expired();
    return session;
  }

  #find(ctx: CallContext, id: string): Session | undefined {
    const session = this.#sessions.get(id);
    return session?.owner === ownerOf(ctx) ? session : undefined;
  }

  #heartbeat(session: Session): void {
    session.place.used();
    session.deadlineMs = this.#clock.monotonicMs() + session.windowMs;
  }

  /** One timer per session, reset when it fires early: a heartbeat costs one assignment. */
  #watch(session: Session, ms: number): void {
    session.callOffExpiry = this.#clock.after(ms, () => {
      const leftMs = session.deadlineMs - this.#clock.monotonicMs();
      if (leftMs > 0) this.#watch(session, leftMs);
      else this.#expire(session);
    });
  }

  #expire(session: Session): void {
    session.place.release();
    this.#sessions.delete(session.id);
    const moved = [...this.#movers].filter(([, mover]) => mover === session).map(([full]) => full);
    for (const full of moved) this.#movers.delete(full);
    this.#logger.debug("session expired", { session_id: session.id, moved });
    if (moved.length === 0) return;
    const stopped = this.#stop(moved).finally(() => this.#stopping.delete(stopped));
    this.#stopping.add(stopped);
  }

  async #stop(moved: readonly string[]): Promise<void> {
    const resources: Resource[] = [];
    const failures: unknown[] = [];
    for (const full of moved) {
      const { api, short } = ResourceName.parse(full);
      try {
        resources.push(this.#machine.find(api, short));
      } catch (error) {
        failures.push(error);
      }
    }
    failures.push(...await stopActuators(resources, this.#clock));
    if (failures.length === 0) return;
    const errors = failures.map(chainOf).join("; ");
    this.#logger.error(`cannot stop everything that a lost client left moving: ${errors}`);
  }

  #isMonitored(method: DescMethod): boolean {
    let isMonitored = this.#monitored.get(method);
    if (isMonitored === undefined) {
      const { monitored = "none" } = this.#machine.apiOfService(method.parent) ?? {};
      isMonitored = monitored !== "none" && monitored.includes(method.name);
      this.#monitored.set(method, isMonitored);
    }
    return isMonitored;
  }

  /** The resource that a call addresses, if the machine has it. */
  #addressed(method: DescMethod, request: Message): ResourceName | undefined {
    const short = resourceNamed(this.#machine.registry, method, request);
    const api = this.#machine.apiOfService(method.parent);
    if (short === undefined || !api) return undefined;
    try {
      return this.#machine.find(api.name, short).name;
    } catch {
      return undefined;
    }
  }
}

/** The owner of a session: the authenticated caller; on an open machine, anybody who knows its id. */
function ownerOf(ctx: CallContext): string {
  return ctx.entity ?? "";
}

/** Clients start a new session on exactly this text. */
function expired(): SvcError {
  return new SvcError("invalid_argument", "SESSION_EXPIRED");
}
