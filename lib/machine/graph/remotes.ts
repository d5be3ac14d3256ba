/**
 * Remotes: other machines whose resources this machine uses like this machine's own.
 *
 * For each configured remote it keeps a connection, as far as possible, and the list of its resources. Nobody waits
 * for a remote: changes are announced, and its users ask again. The resources of an absent remote stay known, with the
 * reason; a new connection makes new ones of them. When a connection is lost, whatever this machine has left moving
 * there is stopped there.
 */

import { RobotService } from "../../../proto/gen/robot_pb.ts";
import { type Clock, deadline, race } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { Secret } from "../../base/secret.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { AnyApi, Registry } from "../../resource/registry.ts";
import { type CallOptions, type Channel, client, type ServiceClient } from "../../wire/rpc/channel.ts";
import type { DialOptions, SignalingServer } from "../../wire/dial/dial.ts";
import type { Credentials } from "../../wire/dial/renewed_token.ts";
import { type Connected, MachineLink } from "../../wire/dial/machine_link.ts";
import { authoritiesIn } from "../../wire/port/tls_files.ts";
import { WITHOUT_TLS } from "../../wire/grpc/grpc_channel.ts";
import { WITH_TLS } from "../../wire/http2/connection.ts";
import { Metadata } from "../../wire/rpc/metadata.ts";
import type { Activities } from "../../base/log/activities.ts";
import type { MachineConfig, RemoteConfig } from "../config/config.ts";
import { ForeignApis } from "../modules/foreign_apis.ts";
import { type ListedResource, OfferedResources, type RemoteResource } from "./offered_resources.ts";
import { PlacedFrames, type RemoteFrame } from "./remote_frames.ts";
import { ASKING_MACHINE, newMachineId, type Relays, relaysIn } from "./relays.ts";

/** The published answer to a caller without a key. */
const KEY_MISSING = "authentication required";
/** The resources of a new list wait this long for the frames. */
const FRAMES_MS = 2_000;

/** A remote itself. */
export interface RemoteStatus {
  readonly name: string;
  readonly state: "configuring" | "ready" | "unhealthy";
  readonly error?: string;
  /** Time of its last change of state. */
  readonly updatedMs: number;
}

export interface RemotesParts {
  readonly registry: Registry;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly activities?: Activities;
  /** Allows credentials to travel without TLS. */
  readonly allowInsecureCredentials?: boolean;
  readonly connect?: DialOptions["connect"];
  /** How to reach remotes whose address is only a name. */
  readonly mdns?: DialOptions["mdns"];
  /** Who arranges a connection to that name, for a machine that this control plane knows. */
  readonly signaling?: (name: string, cloud: MachineConfig["cloud"]) => SignalingServer | undefined;
  /** A number from 0 up to 1. */
  readonly random?: () => number;
}

export class Remotes {
  /** By which this machine recognizes its own resources among a remote's. */
  readonly machineId = newMachineId();
  readonly #parts: RemotesParts;
  readonly #remotes = new Map<string, Remote>();
  /** Remotes that `configure` has withdrawn, until their users are closed. */
  readonly #leaving = new Set<Remote>();
  #cloud: MachineConfig["cloud"];
  #changed = () => {};

  constructor(parts: RemotesParts) {
    this.#parts = parts;
  }

  /** Every known resource, remote after remote in the order of the configuration. */
  get resources(): RemoteResource[] {
    return [...this.#remotes.values()].flatMap((remote) => remote.resources);
  }

  get statuses(): RemoteStatus[] {
    return [...this.#remotes.values()].map((remote) => remote.status);
  }

  /** Whether the first attempt to connect to one of them is still under way. */
  get isConnecting(): boolean {
    return this.statuses.some(({ state }) => state === "configuring");
  }

  /** The machines that a resource comes through. */
  relaysOf({ full, short }: ResourceName): Relays {
    return this.#remotes.get(short.slice(0, short.indexOf(":")))?.relaysOf(full) ?? [];
  }

  /** The last known frames of the connected remotes with a place here. */
  get frames(): RemoteFrame[] {
    return [...this.#remotes.values()].flatMap((remote) => remote.frames);
  }

  /** The APIs that only they know; of several remotes with one API, the first one's. */
  get foreignApis(): AnyApi[] {
    const apis = new Map<string, AnyApi>();
    for (const remote of this.#remotes.values()) {
      for (const api of remote.foreignApis) if (!apis.has(api.name)) apis.set(api.name, api);
    }
    return [...apis.values()];
  }

  /** `changed` is called for every change except those by `configure`. */
  follow(changed: () => void): void {
    this.#changed = changed;
  }

  /**
   * Connects to exactly these remotes. Waits for none of them. The connections of the others stay until `dismiss`,
   * because what uses them stops what it moves there when it closes.
   */
  configure(configs: readonly RemoteConfig[], cloud?: MachineConfig["cloud"]): void {
    this.#cloud = cloud;
    const old = new Map(this.#remotes);
    this.#remotes.clear();
    for (const config of configs) {
      const known = old.get(config.name);
      const kept = known?.isOf(config) ? known : this.#connect(config);
      kept.adopt(config);
      this.#remotes.set(config.name, kept);
      if (kept === known) old.delete(config.name);
    }
    for (const remote of old.values()) this.#leaving.add(remote);
  }

  /** Disconnects from the remotes that `configure` has withdrawn; call it when their users are closed. */
  dismiss(): void {
    for (const remote of this.#leaving) void remote.close();
    this.#leaving.clear();
  }

  async close(): Promise<void> {
    this.#changed = () => {};
    this.dismiss();
    await Promise.all([...this.#remotes.values()].map((remote) => remote.close()));
  }

  #connect(config: RemoteConfig): Remote {
    return new Remote(config, this.machineId, this.#parts, () => this.#cloud, () => this.#changed());
  }
}

class Remote {
  readonly #settings: string;
  readonly #link: MachineLink;
  #status: RemoteStatus;
  readonly #offers: OfferedResources;
  readonly #frames: PlacedFrames;
  #loggedPlain = false;

  constructor(
    private config: RemoteConfig,
    private readonly machineId: string,
    private readonly parts: RemotesParts,
    private readonly cloud: () => MachineConfig["cloud"],
    private readonly changed: () => void,
  ) {
    this.#settings = settingsOf(config);
    this.#status = { name: config.name, state: "configuring", updatedMs: parts.clock.nowMs() };
    this.#offers = new OfferedResources(config, parts.registry, parts.logger);
    this.#frames = new PlacedFrames(config, parts.logger);
    this.#link = this.#connect();
  }

  get status(): RemoteStatus {
    return this.#status;
  }

  isOf(config: RemoteConfig): boolean {
    return this.#settings === settingsOf(config);
  }

  /** Applies the changes that need no new connection: its place. */
  adopt(config: RemoteConfig): void {
    this.config = config;
    this.#frames.place(config);
  }

  relaysOf(full: string): Relays | undefined {
    return this.#offers.relaysOf(full);
  }

  get frames(): readonly RemoteFrame[] {
    return this.#offers.isConnected ? this.#frames.all : [];
  }

  get foreignApis(): Iterable<AnyApi> {
    return this.#offers.foreignApis;
  }

  get resources(): RemoteResource[] {
    return this.#offers.list(this.#status.error ?? `remote "${this.config.name}" is not connected yet`);
  }

  async close(): Promise<void> {
    const reason = `remote "${this.config.name}" is no longer configured`;
    await this.#link.close(new SvcError("canceled", reason));
  }

  #connect(): MachineLink {
    const { clock, logger, connect, mdns, random } = this.parts;
    const { address, insecure, reconnectInterval: pauseMs } = this.config;
    const signaling = () => this.parts.signaling?.(address, this.cloud());
    const downgraded = !insecure && this.#mayDowngrade ? () => this.#downgraded() : undefined;
    // The other machines of its control plane have certificates of that authority.
    const alsoTrusted = () => authoritiesIn(this.cloud()?.tlsCertificate ?? "");
    const tls = insecure ? undefined : { downgraded, alsoTrusted };
    return new MachineLink(address, {
      ...{ clock, logger, connect, mdns, signaling, random, tls, pauseMs },
      credentials: () => this.#credentials(),
      use: (connection) => this.#use(connection),
      lose: (reason) => this.#lose(reason),
    });
  }

  /** As with the published runtime, a remote without TLS needs no setting if no credentials would travel. */
  get #mayDowngrade(): boolean {
    return this.parts.allowInsecureCredentials === true || this.#credentials() === undefined;
  }

  #downgraded(): void {
    if (this.#loggedPlain) return;
    this.#loggedPlain = true;
    const { name, address } = this.config;
    this.parts.logger.warn(
      `remote "${name}" (${address}) serves without TLS: everything travels readable for others on the network`,
    );
  }

  /** Lists its resources periodically, as long as the connection lasts. */
  async #use({ channel, limits, by }: Connected): Promise<never> {
    const { clock } = this.parts;
    const robot = client(RobotService, channel);
    const peer = `remote "${this.config.name}"`;
    const services = (limits: CallOptions) => fetchServices(robot, limits);
    const foreign = new ForeignApis({ ...this.parts, peer, channel, services });
    try {
      for (;;) {
        const frames = this.config.frame && this.#askFrames(robot, limits);
        const resources = await this.#list(robot, limits);
        await foreign.learn(this.#offers.unknownApis(resources), limits.signal);
        await this.#briefly(frames, limits.signal);
        this.#take(channel, by, resources, foreign);
        await frames;
        await clock.sleep(this.config.connectionCheckInterval, limits.signal);
      }
    } finally {
      this.#offers.disconnect();
    }
  }

  /** The remote's resources, without those that it has from this machine. */
  async #list(robot: Robot, limits: CallOptions): Promise<ListedResource[]> {
    const header = Metadata.from([[ASKING_MACHINE, this.machineId]]);
    let relays: Relays[] = [];
    const onHeader = (header: Metadata) => void (relays = relaysIn(header));
    const { resources } = await robot.resourceNames({}, { ...limits, header, onHeader });
    return resources.map((message, index) => ({ ...message, relays: relays[index] ?? [] }));
  }

  /** Applies the remote's list. */
  #take(
    channel: Channel,
    by: Connected["by"],
    listed: readonly ListedResource[],
    foreign: ForeignApis,
  ): void {
    const { isFirst, isChanged } = this.#offers.adopt(channel, listed, foreign);
    if (!isFirst && !isChanged) return;

    if (isFirst) {
      const { clock, logger } = this.parts;
      const { name, address } = this.config;
      this.#status = { name, state: "ready", updatedMs: clock.nowMs() };
      logger.info(`remote "${name}" is connected`, { address, by, resources: this.#offers.count });
      this.parts.activities?.tell("remote", "connected", { remote: name });
    }

    this.changed();
  }

  /** A lidar is used as soon as it is there: its place has to be known by then. What is slow delays no resource. */
  async #briefly(frames: Promise<void> | undefined, signal: AbortSignal): Promise<void> {
    const late = () => new SvcError("deadline_exceeded", `no frames within ${FRAMES_MS} ms`);
    const limited = deadline(this.parts.clock, FRAMES_MS, late, signal);
    await race(frames ?? Promise.resolve(), limited.signal).catch(() => {});
    limited.done();
    signal.throwIfAborted();
  }

  /** Never rejects: a remote that does not report its frames is fully usable otherwise. */
  async #askFrames(robot: Robot, limits: CallOptions): Promise<void> {
    try {
      this.#frames.adopt((await robot.frameSystemConfig({}, limits)).frameSystemConfigs);
    } catch (error) {
      if (!limits.signal?.aborted) this.#frames.keep(error);
    }
  }

  #lose(reason: string): void {
    const { clock, logger } = this.parts;
    const { name, address } = this.config;
    const error = `remote "${name}" (${address}) is not connected: ${reason}${hintFor(reason, this.config)}`;
    const { state, error: before, updatedMs } = this.#status;
    if (error === before) return;
    logger.warn(error);
    if (state === "ready") this.parts.activities?.tell("remote", "disconnected", { remote: name });
    const sinceMs = state === "unhealthy" ? updatedMs : clock.nowMs();
    this.#status = { name, state: "unhealthy", error, updatedMs: sinceMs };
    if (this.#offers.count > 0 || state === "configuring") this.changed();
  }

  #credentials(): Credentials | undefined {
    const { auth, secret, address, insecure } = this.config;
    const entity = address.replace(/:\d+$/, "");
    // Empty ones are none.
    const credentials = auth?.credentials?.type
      ? { type: auth.credentials.type, payload: auth.credentials.payload ?? new Secret("") }
      : secret && { type: "robot-location-secret", payload: secret };
    if (!credentials) return undefined;
    if (insecure && !this.parts.allowInsecureCredentials) {
      const wanted = "set insecure to false, or start with -allow-insecure-creds";
      throw new SvcError("failed_precondition", `credentials do not travel without TLS; ${wanted}`);
    }
    return { entity: auth?.entity ?? entity, ...credentials };
  }
}

type Robot = ServiceClient<typeof RobotService>;

/** The service of every API of a remote's resources. */
async function fetchServices(robot: Robot, limits: CallOptions): Promise<ReadonlyMap<string, string>> {
  const { resourceRpcSubtypes } = await robot.resourceRPCSubtypes({}, limits);
  return new Map(resourceRpcSubtypes.map(({ subtype, protoService }) => {
    return [`${subtype?.namespace}:${subtype?.type}:${subtype?.subtype}`, protoService];
  }));
}

/** Everything that identifies a connection, secrets included: never show it. */
function settingsOf({ name, address, prefix, insecure, auth, secret, ...intervals }: RemoteConfig): string {
  const { connectionCheckInterval, reconnectInterval } = intervals;
  const { type, payload } = auth?.credentials ?? {};
  return JSON.stringify([
    [name, address, prefix, insecure, connectionCheckInterval, reconnectInterval],
    [auth?.entity, type, payload?.reveal(), secret?.reveal()],
  ]);
}

/** What to change about a remote that is not connected for this reason, if that is clear. */
function hintFor(reason: string, { auth, secret }: RemoteConfig): string {
  if (reason.includes(WITHOUT_TLS)) {
    return auth?.credentials?.type || secret
      ? "; if so, its credentials do not travel unless you start with -allow-insecure-creds"
      : '; if so, set "insecure": true for this remote';
  }
  if (reason.includes(WITH_TLS)) return '; if so, set "insecure": false for this remote';
  if (reason.includes(KEY_MISSING) && !auth && !secret) return '; set "auth" for this remote';
  return "";
}
