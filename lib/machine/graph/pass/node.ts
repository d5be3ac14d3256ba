/**
 * A node: one resource of the machine, from its first to its last configuration.
 *
 * It owns the resource's state and reason. States change only here and only by legal moves; an illegal one is a bug,
 * which is reported and does not stop the machine. A node that waits for another reports the whole chain, down to the
 * one that started it.
 */

import type { ResourceName } from "../../../resource/name.ts";
import type { Resource } from "../../../resource/resource.ts";
import type { ResourceConfig } from "../../config/config.ts";
import type { Condition, Standing } from "./plan.ts";

export type BuildState = "unconfigured" | "configuring" | "ready" | "unhealthy" | "removing";

const MOVES: { readonly [S in BuildState]: readonly BuildState[] } = {
  unconfigured: ["configuring", "removing"],
  configuring: ["ready", "unhealthy"],
  ready: ["configuring", "removing"],
  unhealthy: ["ready", "unhealthy", "removing"],
  removing: [],
};

/** One resource as the machine sees it. */
export interface Node {
  readonly name: ResourceName;
  readonly state: BuildState;
  /** Why it is unhealthy. */
  readonly error?: string;
  /** Time of its last change of state. */
  readonly updatedMs: number;
  /** The revision of the configuration from which it was last built, or in which it was unchanged. */
  readonly revision: string;
  readonly config: ResourceConfig;
  /** The full names of its dependencies. */
  readonly holds: ReadonlySet<string>;
  readonly instance?: Resource;
}

/** A part of the program that shows its state beside the resources. */
export type StatusNode = Pick<Node, "name" | "state" | "error" | "updatedMs" | "revision">;

/**
 * Whether clients reach a resource by its client name: its remote may be away, or a local resource or another remote's
 * may have the same name.
 */
export type NodeReachability = "reachable" | "disconnected" | "shadowed" | "ambiguous";

/** An unfinished build; after `giveUp` its instance is closed on arrival. */
export interface UnfinishedBuild {
  readonly done: Promise<void>;
  giveUp(): void;
}

/** A longer chain is reported by its beginning and its end. */
const LINKS_SHOWN = 16;
const NOTHING: ReadonlySet<string> = new Set();

/** Why a node is unhealthy: for a reason of its own, or because of another node. */
interface BuildFailure {
  readonly reason: string;
  readonly because: GraphNode | undefined;
}

export class GraphNode implements Node, Standing {
  config: ResourceConfig;
  fingerprint = "";
  revision = "";
  #state: BuildState = "unconfigured";
  #updatedMs: number;
  /** Why it is unhealthy. */
  #failure: BuildFailure | undefined;
  #holds = NOTHING;
  #instance: Resource | undefined;
  #building: UnfinishedBuild | undefined;
  #wasBuilt = false;
  /** The inputs of the build that took too long. */
  #slowFingerprint: string | undefined;

  constructor(
    config: ResourceConfig,
    nowMs: number,
    /** Receives illegal moves. */
    private readonly bug: (message: string) => void,
  ) {
    this.config = config;
    this.#updatedMs = nowMs;
  }

  get name(): ResourceName {
    return this.config.name;
  }

  get state(): BuildState {
    return this.#state;
  }

  get updatedMs(): number {
    return this.#updatedMs;
  }

  get holds(): ReadonlySet<string> {
    return this.#holds;
  }

  get instance(): Resource | undefined {
    return this.#instance;
  }

  get building(): UnfinishedBuild | undefined {
    return this.#building;
  }

  get condition(): Condition {
    if (this.#instance) return "ready";
    return this.#building ? "building" : "down";
  }

  get error(): string | undefined {
    if (this.#state !== "unhealthy") return undefined;
    const reasons = [this.#failure?.reason];
    for (let next = this.#failure?.because; next?.state === "unhealthy"; next = next.#failure?.because) {
      reasons.push(next.#failure?.reason);
    }
    const left = reasons.length - LINKS_SHOWN;
    if (left > 0) reasons.splice(LINKS_SHOWN / 2, left, `(${left} more)`);
    return reasons.join(": ");
  }

  /** Starts a build with `holds`. A retried node stays visibly unhealthy until it works. */
  build(building: UnfinishedBuild, holds: ReadonlySet<string>, nowMs: number): void {
    this.configure(nowMs);
    this.#building = building;
    this.#holds = holds;
  }

  /** Whether it had an instance before. */
  get wasBuilt(): boolean {
    return this.#wasBuilt;
  }

  /** Records that its build took too long; call it before `fail`. */
  tooSlow(): void {
    this.#slowFingerprint = this.fingerprint;
  }

  /** Whether the last build with these inputs took too long. */
  get isSlow(): boolean {
    return this.#slowFingerprint === this.fingerprint;
  }

  /** Announces a change. */
  configure(nowMs: number): void {
    if (this.#state === "unconfigured" || this.#state === "ready") this.#move("configuring", nowMs);
  }

  ready(instance: Resource, nowMs: number): void {
    this.#slowFingerprint = undefined;
    this.#wasBuilt = true;
    this.#building = undefined;
    this.#instance = instance;
    this.#move("ready", nowMs);
  }

  /** Marks it unhealthy, for a reason of its own or because of another node. */
  fail(reason: string, nowMs: number, because?: GraphNode): void {
    this.#building = undefined;
    this.#holds = NOTHING;
    this.configure(nowMs);
    const before = this.#state === "unhealthy" ? this.#failure : undefined;
    const isSame = before?.reason === reason && before.because === because;
    if (!isSame) this.#move("unhealthy", nowMs);
    this.#failure = { reason, because };
  }

  /** Removes its instance: stops its build, and returns what the caller closes. */
  release(nowMs: number): Resource | undefined {
    const instance = this.#instance;
    this.configure(nowMs);
    this.#building?.giveUp();
    this.#building = this.#instance = undefined;
    this.#holds = NOTHING;
    return instance;
  }

  /** Announces its removal; as `release`. */
  remove(nowMs: number): Resource | undefined {
    const instance = this.#instance;
    this.#building?.giveUp();
    if (this.#state === "configuring") this.fail("given up: it is no longer wanted", nowMs);
    this.#building = this.#instance = undefined;
    this.#holds = NOTHING;
    this.#move("removing", nowMs);
    return instance;
  }

  #move(to: BuildState, nowMs: number): void {
    if (!MOVES[this.#state].includes(to)) this.bug(`${this.name} moves from ${this.#state} to ${to}`);
    this.#state = to;
    this.#failure = undefined;
    this.#updatedMs = nowMs;
  }
}
