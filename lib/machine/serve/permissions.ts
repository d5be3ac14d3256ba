/**
 * Which of the admitted callers may call what: `auth.user_permissions`, by caller, method and resource.
 *
 * Without entries every admitted caller may call everything. With entries a caller may call what its own entry lists,
 * or the entry for the others if it has none; whoever is unknown may call nothing. A change applies at once: it ends
 * calls in progress that it does not allow, and connections that watch a camera that they may no longer see.
 */

import { LinkedList } from "../../base/collections/linked_list.ts";
import { SvcError } from "../../base/error.ts";
import type { Message } from "../../wire/rpc/proto.ts";
import type { CallContext, Interceptor, Peer } from "../../wire/rpc/service.ts";
import { resourceNamed, type Types } from "./call.ts";
import type { UserPermission } from "../config/settings.ts";

/** The published word for calls that address no resource. */
const MACHINE = "_machine";
/** Calls by which a caller gets in, or that only carry or describe other calls. */
const EXEMPT =
  /^\/(proto\.rpc\.v1|proto\.rpc\.webrtc\.v1|grpc\.reflection|svc\.page\.v1\.CallBatchService)[./]/;
const STREAMS = "proto.stream.v1.StreamService";
const ADD_STREAM = `/${STREAMS}/AddStream`;

/** The names of resources by the method that may be called on them. */
type Grants = ReadonlyMap<string, ReadonlySet<string>>;

/** A call under way, and the resource that it addresses. */
interface Permitted {
  readonly ctx: CallContext;
  readonly name: string;
}

/** A connection that may carry videos, which outlive the calls that begin them. */
interface Stay {
  readonly peer: Peer;
  readonly leave: (reason: SvcError) => void;
}

/** The cameras that a connection has asked to watch. */
interface Watched {
  readonly entity: string | undefined;
  readonly names: Set<string>;
}

export class Permissions {
  #byUser: ReadonlyMap<string, Grants> | undefined;
  #others: Grants = new Map();
  readonly #calls = new LinkedList<Permitted>();
  readonly #stays = new LinkedList<Stay>();
  readonly #watched = new WeakMap<Peer, Watched>();

  constructor(entries: readonly UserPermission[]) {
    this.#adopt(entries);
  }

  change(entries: readonly UserPermission[]): void {
    this.#adopt(entries);
    for (const { ctx, name } of this.#calls.values()) {
      if (!this.#allows(ctx.entity, ctx.path, name)) ctx.cancel(refusal(ctx.entity, ctx.path, name));
    }
    for (const { peer, leave } of this.#stays.values()) {
      const { entity, names } = this.#watched.get(peer) ?? { entity: undefined, names: [] };
      const lost = [...names].find((name) => !this.#allows(entity, ADD_STREAM, name));
      if (lost !== undefined) leave(refusal(entity, ADD_STREAM, lost));
    }
  }

  /** Calls `leave` when the peer may no longer watch what it watches; call the returned function when it has gone. */
  stay(peer: Peer, leave: (reason: SvcError) => void): () => void {
    const link = this.#stays.add({ peer, leave });
    return () => void this.#stays.delete(link);
  }

  /** Refuses, as `permission_denied`, the calls that their caller may not make. */
  interceptor(types: Types): Interceptor {
    return (ctx, request) => {
      if (EXEMPT.test(ctx.path)) return;
      if (ctx.method.methodKind === "bidi_streaming" && !request) return this.#watchFirst(types, ctx);
      return this.#enter(ctx, nameIn(types, ctx, request));
    };
  }

  #enter(ctx: CallContext, name: string): () => void {
    const { entity, path, peer } = ctx;
    if (!this.#allows(entity, path, name)) throw refusal(entity, path, name);
    if (path === ADD_STREAM) this.#watchedBy(peer, entity).names.add(name);
    const link = this.#calls.add({ ctx, name });
    return () => void this.#calls.delete(link);
  }

  /** Where either side may begin, the name comes while the call runs: whoever may call this on nothing is refused now. */
  #watchFirst(types: Types, ctx: CallContext): (() => void) | void {
    if (!this.#byUser) return;
    const { entity, path } = ctx;
    if (!this.#grantsOf(entity)?.has(path)) throw refusal(entity, path, MACHINE);
    let leave: (() => void) | undefined;
    let isOver = false;
    void ctx.firstRequest.then((request) => {
      if (isOver) return;
      try {
        leave = this.#enter(ctx, nameIn(types, ctx, request));
      } catch (error) {
        ctx.cancel(SvcError.from(error));
      }
    });
    return () => {
      isOver = true;
      leave?.();
    };
  }

  #watchedBy(peer: Peer, entity: string | undefined): Watched {
    const known = this.#watched.get(peer);
    if (known?.entity === entity && known) return known;
    const watched: Watched = { entity, names: new Set() };
    this.#watched.set(peer, watched);
    return watched;
  }

  #allows(entity: string | undefined, path: string, name: string): boolean {
    return !this.#byUser || this.#grantsOf(entity)?.get(path)?.has(name) === true;
  }

  /** An unidentified caller has none, not even those of the others (published). */
  #grantsOf(entity: string | undefined): Grants | undefined {
    if (entity === undefined) return undefined;
    return this.#byUser?.get(entity) ?? this.#others;
  }

  #adopt(entries: readonly UserPermission[]): void {
    if (entries.length === 0) {
      this.#byUser = undefined;
      return;
    }
    const byUser = new Map<string, Grants>();
    this.#others = new Map();
    for (const { user: { type, id }, permissions } of entries) {
      const grants = grantsOf(permissions);
      if (type === "default") this.#others = grants;
      else byUser.set(id, grants);
    }
    this.#byUser = byUser;
  }
}

function grantsOf(permissions: UserPermission["permissions"]): Grants {
  const grants = new Map<string, Set<string>>();
  for (const { resources, allowedMethods } of permissions) {
    for (const method of allowedMethods) {
      const names = grants.getOrInsertComputed(method, () => new Set());
      for (const name of resources) names.add(name);
    }
  }
  return grants;
}

/** The resource that a call addresses, or the word for none. */
function nameIn(types: Types, ctx: CallContext, request: Message | undefined): string {
  const { method } = ctx;
  const service = method.parent;
  if (!types.apiOfService(service) && service.typeName !== STREAMS) return MACHINE;
  const name = resourceNamed(types, method, request);
  // A resource cannot have the word's name: a name begins with a letter or a digit.
  return name === undefined || name === MACHINE ? MACHINE : name;
}

function refusal(entity: string | undefined, path: string, name: string): SvcError {
  const who = entity === undefined ? "callers without a key" : `"${entity}"`;
  const on = name === MACHINE ? `the machine ("${MACHINE}")` : `"${name}"`;
  return new SvcError(
    "permission_denied",
    `auth.user_permissions of this machine does not let ${who} call ${path} on ${on}`,
  );
}
