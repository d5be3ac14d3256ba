/**
 * How the commands reach a machine: by its address, or by its name through a control plane.
 *
 * A key travels only over TLS, to this computer, or where the caller allows it. The connection opens at the first call.
 */

import { RobotService } from "../../../proto/gen/robot_pb.ts";
import type { Clock } from "../../../lib/base/clock.ts";
import { chainOf, SvcError } from "../../../lib/base/error.ts";
import type { Host } from "../../../lib/base/host.ts";
import { silentLogs } from "../../../lib/base/log/log.ts";
import type { Secret } from "../../../lib/base/secret.ts";
import { chosen, givenKey, ProfileFile } from "../../../lib/cloud_client/profile.ts";
import { signalingServerAt } from "../../../lib/cloud_client/client.ts";
import { type CallOptions, type Channel, client, type ServiceClient } from "../../../lib/wire/rpc/channel.ts";
import { dial, type Dialed, type DialOptions } from "../../../lib/wire/dial/dial.ts";
import type { Credentials } from "../../../lib/wire/dial/renewed_token.ts";
import type { GrpcOptions } from "../../../lib/wire/grpc/grpc_channel.ts";
import { type Flag, UsageError, type Values } from "../../flags.ts";

/** Flags of every command. */
export const WHERE_FLAGS = [
  {
    name: "machine",
    short: "m",
    type: "string",
    default: "localhost:8080",
    value: "WHERE",
    env: "SVC_MACHINE",
    help: "The machine: host:port, a URL, unix:/path, or its name or id at the control plane.",
  },
  {
    name: "profile",
    type: "string",
    default: "",
    value: "PROFILE",
    env: "SVC_PROFILE",
    help: "The control plane and key that svc-ml login has stored under this name.",
  },
  {
    name: "base-url",
    type: "string",
    default: "",
    value: "URL",
    env: "SVC_BASE_URL",
    help: "The address of the control plane that knows the machine's name.",
  },
  {
    name: "ca-file",
    type: "string",
    default: "",
    value: "FILE",
    env: "SVC_CA_FILE",
    help: "Trust this authority (a file of certificates, PEM).",
  },
  {
    name: "allow-insecure-creds",
    type: "bool",
    default: false,
    help: "The key may travel to other computers without TLS.",
  },
  { name: "json", type: "bool", default: false, help: "Print JSON instead of text." },
] as const satisfies readonly Flag[];

export type WhereValues = Values<typeof WHERE_FLAGS>;

/** Time limit of a call that answers at once. */
const ANSWER_MS = 30_000;

/** Time limit for the connection. */
const DIAL_MS = 30_000;

interface ReachParts {
  readonly host: Host;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** A connection to a machine. */
export interface MachineClient {
  /** Its address or name, as it was given. */
  readonly where: string;
  readonly channel: Channel;
  readonly robot: ServiceClient<typeof RobotService>;
  /** For calls that answer at once. */
  readonly limits: CallOptions;
  close(): void;
}

/** Connects. Throws `UsageError` for an unusable place, `unavailable` if nobody answers there. */
export async function reachMachine(values: WhereValues, parts: ReachParts): Promise<MachineClient> {
  const { host, signal } = parts;
  const where = values.machine.trim();
  const ca = values.caFile === "" ? undefined : await host.readTextFile(values.caFile);
  const account = await readAccount(values, host);
  const dialed = isAddress(where)
    ? await byAddress(where, account, { ...values, ca }, parts)
    : await byName(where, account, ca, parts);
  const { channel } = dialed;
  const robot = client(RobotService, channel);
  const limits = { timeoutMs: ANSWER_MS, signal };
  try {
    await robot.getVersion({}, limits);
  } catch (error) {
    channel.close();
    throw explained(error, where, account !== undefined);
  }
  return { where, channel, robot, limits, close: () => channel.close() };
}

interface MachineAccount {
  readonly baseUrl?: string;
  readonly credentials: Credentials;
  readonly ca?: string;
  /** The caller named the key for this command, rather than once at a login. */
  readonly isGiven: boolean;
}

/** The key of the environment, or of the profile. */
async function readAccount(values: WhereValues, host: Host): Promise<MachineAccount | undefined> {
  const given = givenKey(host);
  const profiles = new ProfileFile(host);
  const all = await profiles.read();
  const name = values.profile || all.current;
  const isNamed = values.profile !== "" || Object.hasOwn(all.profiles, name);
  const profile = isNamed ? chosen(all, name, profiles.path) : undefined;
  const baseUrl = values.baseUrl || profile?.baseUrl;
  const caFile = values.caFile || profile?.caFile;
  const ca = caFile ? await host.readTextFile(caFile) : undefined;
  if (given && values.profile === "") {
    return { baseUrl, credentials: credentialsOf(given.keyId, given.key), ca, isGiven: true };
  }
  if (!profile) return undefined;
  const credentials = credentialsOf(profile.keyId, profile.key);
  return { baseUrl, credentials, ca, isGiven: values.profile !== "" };
}

function credentialsOf(entity: string, payload: Secret): Credentials {
  return { type: "api-key", entity, payload };
}

/** Whether `where` is an address rather than a name. */
function isAddress(where: string): boolean {
  return where.includes(":") || where.includes("/") || where === "localhost" || /^[\d.]+$/.test(where);
}

interface ParsedAddress {
  /** `host:port` or `unix:/path`, as `dial` takes it. */
  readonly target: string;
  readonly scheme?: "http" | "https";
  readonly isLocal: boolean;
}

function parsedAddress(where: string): ParsedAddress {
  if (where.startsWith("unix:/")) return { target: where, scheme: "http", isLocal: true };
  const [, named, rest] = /^(?:(https?):\/\/)?([^/]+)\/?$/i.exec(where) ?? [];
  const [, name, port] = /^(\[[\da-f:.]+\]|[^:\s]+)(?::(\d{1,5}))?$/i.exec(rest ?? "") ?? [];
  if (name === undefined || Number(port ?? 1) > 65_535) {
    throw new UsageError(`--machine: found "${where}", wanted host:port, a URL, unix:/path or a name`);
  }
  const scheme = named?.toLowerCase() as ParsedAddress["scheme"];
  const isLocal = /^(localhost|127(\.\d+){3}|\[::1\])$/i.test(name);
  const usual = { http: 80, https: 443 };
  return { target: `${name}:${port ?? (scheme ? usual[scheme] : 8080)}`, scheme, isLocal };
}

async function byAddress(
  where: string,
  account: MachineAccount | undefined,
  { ca, allowInsecureCreds }: { readonly ca?: string; readonly allowInsecureCreds: boolean },
  parts: ReachParts,
): Promise<Dialed> {
  const { target, scheme, isLocal } = parsedAddress(where);
  // The key of a login is for its control plane; a machine gets a key that the caller means for it.
  const credentials = account?.isGiven ? account.credentials : undefined;
  const mayBePlain = credentials === undefined || isLocal || allowInsecureCreds;
  if (scheme === "http" && !mayBePlain) {
    const wanted = "use https, or allow it with --allow-insecure-creds";
    throw new SvcError("failed_precondition", `a key does not travel without TLS to ${where}; ${wanted}`);
  }
  const usual: GrpcOptions["tls"] = {
    ca: ca ?? account?.ca,
    // Nobody is between this computer and itself.
    insecureSkipVerify: isLocal && ca === undefined,
    downgraded: scheme === undefined && mayBePlain ? () => {} : undefined,
  };
  const tls = scheme === "http" ? undefined : usual;
  return await dialed(target, where, { tls, credentials }, parts);
}

async function byName(
  name: string,
  account: MachineAccount | undefined,
  ca: string | undefined,
  parts: ReachParts,
): Promise<Dialed> {
  const baseUrl = account?.baseUrl;
  if (!account || baseUrl === undefined) {
    // Without a control plane: a machine of this network that announces itself.
    return await dialed(name, name, { tls: { ca }, mdns: "system" }, parts);
  }
  const { machineFqdn } = await import("./names.ts");
  const trusted = ca ?? account.ca;
  const fqdn = await machineFqdn(name, { ...account, baseUrl, ca: trusted }, parts);
  const server = signalingServerAt(baseUrl);
  const signaling = () => ({ ...server, tls: server.tls && { ca: trusted } });
  const { credentials } = account;
  return await dialed(fqdn, name, { tls: { ca: trusted }, signaling, credentials }, parts);
}

async function dialed(
  target: string,
  where: string,
  options: Pick<DialOptions, "tls" | "credentials" | "mdns" | "signaling">,
  { clock, signal }: ReachParts,
): Promise<Dialed> {
  const late = AbortSignal.timeout(DIAL_MS);
  const limited = AbortSignal.any([signal, late]);
  const logger = silentLogs(clock).logger("dial");
  try {
    return await dial(target, { ...options, clock, logger, signal: limited });
  } catch (error) {
    if (signal.aborted) throw error;
    throw explained(error, where, options.credentials !== undefined);
  }
}

/** The error with what to do about it. */
function explained(thrown: unknown, where: string, hasKey: boolean): SvcError {
  const { code } = SvcError.from(thrown);
  const problem = `${where}: ${chainOf(thrown)}`;
  if (code === "unauthenticated" && !hasKey) {
    const remedy = "this machine wants a key: set SVC_API_KEY_ID and SVC_API_KEY, or choose a --profile";
    return new SvcError(code, `${problem}; ${remedy}`);
  }
  if (code === "unavailable" && !isAddress(where) && !hasKey) {
    const remedy =
      "a name needs a machine on this network, or the control plane that knows it (svc-ml login, or " +
      "--base-url with SVC_API_KEY_ID and SVC_API_KEY); an address is host:port";
    return new SvcError(code, `${problem}; ${remedy}`);
  }
  if (code === "unavailable") {
    const remedy = "is the machine running? --machine names another address or a machine's name";
    return new SvcError(code, `${problem}; ${remedy}`);
  }
  return new SvcError(code, problem);
}
