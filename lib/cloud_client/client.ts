/**
 * A machine's calls to its control plane: configuration, certificate, restart orders, logs.
 *
 * Thin: one connection, credentials exchanged for a token when one is needed, answers as they came. Errors are
 * `SvcError`s with the code of the answer; a control plane that is away is `unavailable`.
 *
 * The room owns a machine's, an agent's or a person's side of a control plane: the channel, configuration, logs,
 * uploads, profiles, and the rules for data and training that both sides apply.
 */

import {
  AgentDeviceService,
  type DeviceAgentConfigRequestSchema,
  type DeviceAgentConfigResponse,
} from "../../proto/gen/agent_pb.ts";
import {
  type ConfigRequestSchema,
  type LogRequestSchema,
  type RobotConfig,
  RobotService,
} from "../../proto/gen/robot_config_pb.ts";
import { SignalingService } from "../../proto/gen/signaling_pb.ts";
import { ChangeService, type FollowResponse, type ReportRequestSchema } from "../../proto/gen/changes_pb.ts";
import type { CreateSequenceRequestSchema } from "../../proto/gen/data_pb.ts";
import { DataSyncService } from "../../proto/gen/datasync_pb.ts";
import { type GetPackageRequestSchema, type Package, PackageService } from "../../proto/gen/packages_pb.ts";
import { toMs } from "../api/shared/time.ts";
import type { Clock } from "../base/clock.ts";
import { SvcError } from "../base/error.ts";
import { shownUrl } from "../base/log/shown_url.ts";
import { type CallOptions, type Channel, client, type ServiceClient } from "../wire/rpc/channel.ts";
import type { SignalingServer } from "../wire/dial/dial.ts";
import { connectGrpc } from "../wire/grpc/grpc_channel.ts";
import { ADDRESSED, Metadata } from "../wire/rpc/metadata.ts";
import type { MessageInitShape } from "../wire/rpc/proto.ts";
import { DEVICE_MARK, type DeviceMark, headerOfMark } from "./changes/device_mark.ts";
import { type CloudCredentials, CloudToken } from "./cloud_token.ts";

/** Time limit of a call, unless the caller gives another. */
const ANSWER_TIMEOUT_MS = 15_000;
/** Interval of pings while nothing else comes, as the server's: an idle machine moves few bytes. */
const KEEPALIVE_MS = 120_000;
const PORT_MAX = 65_535;

export interface CloudClientOptions {
  /** `https://host:port`; without a scheme it is https. */
  readonly address: string;
  /** The id of the machine part that calls. */
  readonly partId: string;
  /** `api-key` with the id of the key as entity, or `robot-secret` with that of the part. */
  readonly credentials: CloudCredentials;
  /** Allows credentials to travel without TLS. */
  readonly allowInsecureCredentials: boolean;
  /** What this program reports about itself. */
  readonly agent: MessageInitShape<typeof ConfigRequestSchema>["agentInfo"];
  /** Tells this device apart from others with the same credentials. */
  readonly mark?: DeviceMark;
  readonly clock: Clock;
}

export interface KeyPair {
  readonly certPem: string;
  readonly keyPem: string;
}

export interface RestartOrder {
  readonly mustRestart: boolean;
  /** When to ask again; 0 if the control plane gives no time. */
  readonly intervalMs: number;
}

type Limits = Pick<CallOptions, "timeoutMs" | "signal">;

export class CloudClient {
  readonly #options: CloudClientOptions;
  readonly #channel: Channel;
  readonly #robot: ServiceClient<typeof RobotService>;
  readonly #token: CloudToken;

  /** Connects at the first call. Throws where credentials would travel in the clear. */
  constructor(options: CloudClientOptions) {
    const { target, plain } = parseCloudAddress(options.address);
    if (plain && !options.allowInsecureCredentials) {
      const wanted = "use https, or start with -allow-insecure-creds";
      const found = `credentials do not travel without TLS to ${options.address}`;
      throw new SvcError("failed_precondition", `${found}; ${wanted}`);
    }
    const { clock, mark } = options;
    this.#options = options;
    this.#channel = connectGrpc(target, {
      header: Metadata.from([
        // A proxy on the way may hand on another one, which would then stand in links for downloads.
        [ADDRESSED, `${plain ? "http" : "https"}://${target}`],
        ...mark ? [[DEVICE_MARK, headerOfMark(mark)] as const] : [],
      ]),
      ...{ clock, tls: plain ? undefined : {}, keepaliveMs: KEEPALIVE_MS },
      proxied: true,
    });
    this.#robot = client(RobotService, this.#channel);
    this.#token = new CloudToken(this.#channel, options.credentials, clock);
  }

  /** The control plane's name in errors. */
  get address(): string {
    return this.#options.address;
  }

  /** A client of the same part at another address; the caller closes it. */
  at(address: string): CloudClient {
    return new CloudClient({ ...this.#options, address });
  }

  /** The host that arranges WebRTC connections to machines, unless the control plane names another. */
  get signalingServer(): SignalingServer {
    return signalingServerAt(this.address);
  }

  /** The id of the part that calls. */
  get partId(): string {
    return this.#options.partId;
  }

  /** The configuration of the part. */
  async config(limits: Limits = {}): Promise<RobotConfig> {
    const { partId: id, agent: agentInfo } = this.#options;
    const { config } = await this.#call(limits, (with_) => this.#robot.config({ id, agentInfo }, with_));
    if (!config) throw new SvcError("invalid_argument", `${this.address} answered without a configuration`);
    return config;
  }

  /** The part's certificate; `undefined` while it has none yet. */
  async certificate(limits: Limits = {}): Promise<KeyPair | undefined> {
    const { partId: id } = this.#options;
    const { tlsCertificate: certPem, tlsPrivateKey: keyPem } = await this.#call(
      limits,
      (with_) => this.#robot.certificate({ id }, with_),
    );
    return certPem === "" || keyPem === "" ? undefined : { certPem, keyPem };
  }

  /** Whether the program is to restart. */
  async needsRestart(limits: Limits = {}): Promise<RestartOrder> {
    const { partId: id } = this.#options;
    const { mustRestart, restartCheckInterval } = await this.#call(
      limits,
      (with_) => this.#robot.needsRestart({ id }, with_),
    );
    return { mustRestart, intervalMs: toMs(restartCheckInterval) };
  }

  /**
   * Changes of the part as they happen: first an empty answer, after which no change goes unannounced. Fails with
   * `unimplemented` at a control plane that announces no changes.
   */
  changes(signal: AbortSignal): AsyncIterable<FollowResponse> {
    const { follow } = client(ChangeService, this.#channel);
    const { partId: id } = this.#options;
    const limits = { timeoutMs: ANSWER_TIMEOUT_MS, signal };
    return this.#token.answers(limits, (header) => follow({ id }, { header, signal }));
  }

  /** Says how the machine is. Fails with `unimplemented` at a control plane that does not ask. */
  async report(
    health: Omit<MessageInitShape<typeof ReportRequestSchema>, "id" | "$typeName">,
    limits: Limits = {},
  ): Promise<void> {
    const { report } = client(ChangeService, this.#channel);
    await this.#call(limits, (with_) => report({ ...health, id: this.partId }, with_));
  }

  /** The versions that an agent runs, and its settings. */
  deviceAgentConfig(
    request: MessageInitShape<typeof DeviceAgentConfigRequestSchema>,
    limits: Limits = {},
  ): Promise<DeviceAgentConfigResponse> {
    const { deviceAgentConfig } = client(AgentDeviceService, this.#channel);
    return this.#call(limits, (with_) => deviceAgentConfig({ ...request, id: this.partId }, with_));
  }

  /** The address of a package, and its checksum. */
  async package(
    request: MessageInitShape<typeof GetPackageRequestSchema>,
    limits: Limits = {},
  ): Promise<Package> {
    const { getPackage } = client(PackageService, this.#channel);
    const asked = { ...request, includeUrl: true };
    const { package: found } = await this.#call(limits, (with_) => getPackage(asked, with_));
    if (found) return found;
    throw new SvcError("not_found", `${this.address} answered without a package for "${request.id}"`);
  }

  /** Uploads captured data; `signal` limits the time. */
  dataSync<T>(
    signal: AbortSignal,
    make: (sync: ServiceClient<typeof DataSyncService>, options: CallOptions) => Promise<T>,
  ): Promise<T> {
    const sync = client(DataSyncService, this.#channel);
    return this.#call({ signal }, ({ header }) => make(sync, { signal, header }));
  }

  /** Makes a sequence of captured data; `signal` limits the time. */
  async createSequence(
    request: MessageInitShape<typeof CreateSequenceRequestSchema>,
    signal: AbortSignal,
  ): Promise<void> {
    // Large, and few machines make sequences.
    const { DataService } = await import("../../proto/gen/data_pb.ts");
    const data = client(DataService, this.#channel);
    await this.#call({ signal }, ({ header }) => data.createSequence(request, { signal, header }));
  }

  /** Arranges WebRTC connections; `signal` limits the time. */
  signaling<T>(
    signal: AbortSignal,
    make: (signaling: ServiceClient<typeof SignalingService>, options: CallOptions) => Promise<T>,
  ): Promise<T> {
    const signaling = client(SignalingService, this.#channel);
    return this.#call({ signal }, ({ header }) => make(signaling, { signal, header }));
  }

  /** Hands over log entries. */
  async log(logs: MessageInitShape<typeof LogRequestSchema>["logs"], limits: Limits = {}): Promise<void> {
    const { partId: id } = this.#options;
    await this.#call(limits, (with_) => this.#robot.log({ id, logs }, with_));
  }

  close(): void {
    this.#channel.close();
  }

  /** A call with a token; an expired token is exchanged once. */
  #call<T>(
    { timeoutMs = ANSWER_TIMEOUT_MS, signal }: Limits,
    make: (options: CallOptions) => Promise<T>,
  ): Promise<T> {
    const limits = { timeoutMs, signal };
    return this.#token.call(limits, (header) => make({ ...limits, header }));
  }
}

/** The host that arranges connections, at the address of a control plane. */
export function signalingServerAt(address: string): SignalingServer {
  const { target, plain } = parseCloudAddress(address);
  return { address: target, tls: plain ? undefined : {} };
}

/**
 * Whether the control plane that names a machine `fqdn` also names `name`. The keys of a remote are shown to the
 * machine's own control plane only if it does.
 */
export function isNeighbour(name: string, fqdn = ""): boolean {
  // `<part>.<location>.<domain>`
  const domainOf = (full: string) => full.toLowerCase().split(".").slice(2).join(".");
  const [domain, own] = [domainOf(name), domainOf(fqdn)];
  return own !== "" && (domain === own || domain.endsWith(`.${own}`));
}

/** `host:port` of the address of a control plane, and whether it is one without TLS. */
export function parseCloudAddress(address: string): { target: string; plain: boolean } {
  const [, named = "https", host, port] =
    /^(?:(\w+):\/\/)?(\[[^\]/\s]+\]|[^:[\]/?#@\s]+)(?::(\d{1,5}))?\/*$/.exec(address.trim()) ?? [];
  const scheme = named.toLowerCase();
  if (host === undefined || !["http", "https"].includes(scheme) || Number(port ?? 0) > PORT_MAX) {
    const wanted = "https://host:port";
    throw new SvcError(
      "invalid_argument",
      `"${shownUrl(address)}" is no address of a control plane, wanted ${wanted}`,
    );
  }
  return { target: `${host}:${port ?? (scheme === "http" ? "80" : "443")}`, plain: scheme === "http" };
}
