/** What `svc-cloud serve` runs: a control plane on a port, until a signal stops it. */

import { randomBytes } from "node:crypto";
import { fileURLToPath } from "node:url";
import { type Clock, race, SystemClock } from "../../../lib/base/clock.ts";
import { messageOf, SvcError } from "../../../lib/base/error.ts";
import type { Host } from "../../../lib/base/host.ts";
import { Secret } from "../../../lib/base/secret.ts";
import { LoopDelay } from "../../../lib/cloud/loop_delay.ts";
import type { Logger } from "../../../lib/base/log/log.ts";
import { logOwnFaults } from "../../../lib/base/log/own_faults.ts";
import { giveBackFreed } from "../../../lib/base/native/freed_memory.ts";
import { OrphanReaper } from "../../../lib/base/native/processes/orphans.ts";
import { giveSigns } from "../../../lib/base/native/processes/service_signs.ts";
import { Addresses, noteAddress } from "../../../lib/cloud/addresses/addresses.ts";
import { type Cloud, openCloud } from "../../../lib/cloud/cloud.ts";
import { ORGANIZATION_MAKERS, type OrganizationMakers } from "../../../lib/cloud/access/context.ts";
import { makeExample } from "../../../lib/cloud/example.ts";
import { openSandbox } from "../../../lib/cloud/sandbox/sandbox.ts";
import { checkedTurnUrl, openStun, type TurnOptions } from "../../../lib/cloud/signaling/ice_servers.ts";
import type { SignalingOptions } from "../../../lib/cloud/signaling/signaling.ts";
import type { FileStore } from "../../../lib/cloud/store/files.ts";
import { openServedContents, requireContents } from "../contents/address.ts";
import { databaseDangers } from "../../../lib/cloud/store/postgres/dangers.ts";
import { Secrets } from "../../../lib/cloud/store/secrets/secrets.ts";
import type { Store } from "../../../lib/cloud/store/store.ts";
import { checkedDomain, machineNames, noteDomain } from "../../../lib/cloud/tenants/hosts.ts";
import type { Limits } from "../../../lib/cloud/access/limits.ts";
import { PortCertificate } from "../../../lib/cloud/addresses/port_certificate.ts";
import { TrustedProxies } from "../../../lib/wire/rpc/proxies.ts";
import { connectionLimit } from "../../../lib/wire/flow/admission.ts";
import { openPort, type Port } from "../../../lib/wire/port/port.ts";
import type { TlsFiles } from "../../../lib/wire/port/tls.ts";
import { UsageError, type Values } from "../../flags.ts";
import { builtPage } from "../../built_page.ts";
import { openLogs } from "../../logs.ts";
import { FLEET_PAGE } from "../../page_path.ts";
import { VERSION } from "../../version.ts";
import { openInference, openSharedNative, withWorkFolder } from "./content.ts";
import type { SERVE_FLAGS } from "./flags.ts";
import {
  type CloudProgramContext,
  located,
  ownConfigs,
  readLimits,
  secretsOf,
  withStore,
} from "../command_context.ts";
import { installCloud, type Listens } from "./install.ts";
import { createConfigThread } from "../checks/thread.ts";
import { openCommands } from "./commands.ts";
import { folderDangers } from "../data_folder.ts";
import { describeExample } from "../init.ts";
import { openProvider } from "./provider.ts";
import { openTraining } from "./training.ts";
import { openTriggers } from "./triggers.ts";
import type { Route } from "../../../lib/wire/port/route.ts";
import type { StoreFlags } from "../cloud_flags.ts";
import { openPatiently } from "./patient_start.ts";

/** Training pictures between two log lines of the demo's progress. */
const REPORTED_PICTURES = 40;
const SHUTDOWN_MS = 5_000;
/** Each machine keeps a connection open, and its agent another one. */
const CONNECTIONS_MAX = 20_000;
const PORT_MAX = 65_535;
const METRICS_KEY_BYTES = 24;
const METRICS_KEY_CHARS_MIN = 16;

export type ServeOptions = Values<typeof SERVE_FLAGS> & StoreFlags;

/** The parts of a serving control plane. */
interface Parts {
  readonly options: ServeOptions;
  readonly organizations: OrganizationMakers;
  readonly addresses: Addresses;
  readonly store: Store;
  readonly files: FileStore;
  readonly limits: Limits;
  readonly secrets: Secrets;
  /** Takes the files of content processes. */
  readonly workFolder: string;
  readonly host: Host;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A signal has stopped the program while it waited for its database or its object store. */
class StoppedEarly extends Error {}

/** Serves until a signal stops it. */
export async function serveCloud({ host }: CloudProgramContext, given: ServeOptions): Promise<void> {
  proxiesOf(given.trustedProxy);
  const options = { ...located(given, host), machineDomain: checkedDomain(given.machineDomain) };
  const organizations = organizationMakers(options.organizations);
  if (given.install) return await installCloud(Deno.args, host, listensOf(options, host));
  const clock = new SystemClock();
  using open = openLogs("svc-cloud", options.logFile, host, clock);
  await using _giving = giveBackFreed(clock);
  using _reaper = new OrphanReaper(clock);
  await using _signs = giveSigns({ pid: Deno.pid, parent: Deno.ppid, host }, clock);
  open.logs.configure([], options.debug);
  const logger = open.logs.logger("cloud");
  using _faults = logOwnFaults("svc-cloud", logger);
  const { promise: stopped, resolve } = Promise.withResolvers<string>();
  const ignore = host.onTermination(resolve);
  const leave = await holdFolder(options, host);
  const waiting = new AbortController();
  const patient = { clock, logger, signal: waiting.signal };
  void stopped.then((reason) => waiting.abort(new StoppedEarly(reason)));
  try {
    logger.info("svc-cloud", { version: VERSION });
    for (const danger of await folderDangers(options, host)) logger.warn(danger);
    await withStore(options, host, async (store) => {
      const dangers = options.database === "" ? [] : await databaseDangers(store);
      for (const danger of dangers) logger.warn(`the database: ${danger}`);
      const limits = await readLimits(options.limits, host);
      const openFiles = async () => {
        const files = await openServedContents(options, host, clock, { limits, logger });
        await requireContents(store, files, options, { isLost: options.contentsLost, logger });
        return files;
      };
      // A request to a silent store takes minutes; a signal does not wait for its end.
      const openUntilStopped = () => race(openFiles(), waiting.signal);
      const files = await openPatiently("the object store", openUntilStopped, patient);
      const addresses = new Addresses(options.publicUrl, host.hostname(), host);
      const secrets = await Secrets.open({ ...secretsOf(options, store, host), logger });
      const over = new AbortController();
      const following = secrets.follow(over.signal);
      try {
        const own = { store, files, secrets, limits };
        const parts = { options, organizations, addresses, ...own, host, clock, logger };
        await withWorkFolder(
          options.data,
          host,
          (workFolder) => serveParts({ ...parts, workFolder }, stopped),
        );
      } finally {
        over.abort();
        await following;
      }
    }, (open) => openPatiently("the database", open, patient));
  } catch (error) {
    if (!(error instanceof StoppedEarly)) throw error;
    logger.info(`stopping: ${error.message}`);
  } finally {
    leave();
    ignore();
  }
}

/**
 * Two programs that serve one SQLite folder would each keep in memory what the other changes. Control planes on one
 * PostgreSQL database tell each other.
 */
async function holdFolder({ data, database }: ServeOptions, host: Host): Promise<() => void> {
  if (database !== "") return () => {};
  await host.makeFolder(data, { mode: 0o700 });
  const leave = await host.lock(`${data}/serve.lock`);
  if (leave) return leave;
  const remedy =
    "stop the other one, give another folder with --data, or use PostgreSQL with --database for several";
  throw new SvcError("failed_precondition", `another svc-cloud serves ${data} already: ${remedy}`);
}

/** Serves until `stopped` resolves with the reason. */
async function serveParts(parts: Parts, stopped: Promise<string>): Promise<void> {
  const { options, addresses, store, files, host, clock, logger } = parts;
  const turn = await readTurnOptions(options, host);
  const stun = options.stun === "" ? undefined : await openStun(addressOf("--stun", options.stun), logger);
  const loopDelay = new LoopDelay(clock, logger, () => host.mainThreadCpuUs() / 1000);
  const { cloud, routes } = await openParts(parts, { turn, stunPort: stun?.port }, loopDelay);
  try {
    const certificate = certificateOf(parts, cloud);
    const port = await openCloudPort(parts, cloud, routes, await certificate?.read(), loopDelay);
    loopDelay.start();
    const forget = certificate?.keep(port);
    const url = addresses.main ?? port.url.replace(/(?<=:\/\/)(0\.0\.0\.0|\[::\])(?=:)/, host.hostname());
    await noteAddress(store, url);
    await noteDomain(store, options.machineDomain);
    if (options.demo) {
      const heard = (made: number, total: number) => {
        if (made % REPORTED_PICTURES === 0) {
          logger.info(`creating an example: ${made} of ${total} training pictures`);
        }
      };
      const around = { store, files, host, configs: ownConfigs(clock), data: options.data, clock };
      const example = await makeExample(around, url, { withData: true, heard });
      // The example's location has names of its own.
      await certificate?.refresh(port);
      if (example) host.write(describeExample(example));
    }
    logger.info("serving", { url: port.url });
    logger.info(
      "published programs dial machines by name: `svc-cloud hosts` prints what leads the names here",
    );
    logger.info(`stopping: ${await stopped}`);
    await forget?.();
    await port.close(SHUTDOWN_MS);
  } finally {
    stun?.close();
    loopDelay.close();
    await cloud.close();
  }
}

/** The TURN servers, and the secret that they share. */
async function readTurnOptions(
  { turn, turnSecretFile }: ServeOptions,
  host: Host,
): Promise<TurnOptions | undefined> {
  if (turn.length === 0 && turnSecretFile === "") return undefined;
  if (turn.length === 0 || turnSecretFile === "") {
    throw new UsageError("--turn and --turn-secret-file: wanted both, found one of them");
  }
  const urls = turn.map(checkedTurnUrl);
  const secret = (await host.readTextFile(turnSecretFile)).trim();
  if (secret !== "") return { urls, secret: new Secret(secret) };
  throw new SvcError("invalid_argument", `--turn-secret-file: ${turnSecretFile} is empty, wanted a secret`);
}

/** The control plane, and the pages that its trainers need. */
async function openParts(
  parts: Parts,
  signaling: SignalingOptions,
  loopDelay: LoopDelay,
): Promise<{ cloud: Cloud; routes: ReadonlyMap<string, Route> }> {
  const { options, organizations, addresses, store, files, secrets, limits, host, clock, logger } = parts;
  const { workFolder } = parts;
  const around = { host, clock, logger };
  const sandbox = await openSandbox(host, clock, [options.data]);
  const native = await openSharedNative(logger);
  const inference = openInference(options, { ...around, native, workFolder }, sandbox);
  const { training, routes } = await openTraining(
    { ...options, publicUrl: addresses.main ?? "" },
    { ...around, sandbox, limits },
    inference.content,
  );
  const cloud = openCloud({
    page: builtPage(host, FLEET_PAGE),
    secrets,
    store,
    files,
    clock,
    logger,
    addresses,
    organizations,
    createConfigThread,
    limits,
    metricsKey: await readMetricsKey(options, host),
    loopDelay,
    memory: () => host.usage(),
    localhostCertificates: options.localhostCertificates,
    machineDomain: options.machineDomain,
    installers: await installers(host),
    pinsAuthority: options.tls && options.tlsCert === "",
    training,
    inference,
    mapping: { content: inference.content },
    triggers: await openTriggers(options, host),
    provider: await openProvider(options, addresses, host, clock),
    commands: openCommands(options, host),
    signaling,
  });
  return { cloud, routes };
}

async function openCloudPort(
  { options, host, clock, logger }: Parts,
  cloud: Cloud,
  routes: ReadonlyMap<string, Route>,
  tls: TlsFiles | undefined,
  loopDelay: LoopDelay,
): Promise<Port> {
  const pem = () => ({
    status: 200,
    contentType: "application/x-pem-file",
    body: cloud.authority.certificate,
  });
  return await openPort({
    table: cloud.table,
    proxies: proxiesOf(options.trustedProxy),
    bind: addressOf("--listen", options.listen),
    tls,
    http: { routes: new Map([...cloud.routes, ...routes, ["/ca.pem", pem]]) },
    clock,
    logger,
    connections: await connectionLimit(host, CONNECTIONS_MAX),
    isBehind: () => loopDelay.isBehind,
  });
}

function proxiesOf(addresses: readonly string[]): TrustedProxies | undefined {
  if (addresses.length === 0) return undefined;
  try {
    // A variable of the environment has one text.
    return new TrustedProxies(addresses.flatMap((one) => one.split(",")).map((one) => one.trim()));
  } catch (error) {
    throw new UsageError(`--trusted-proxy: ${messageOf(error)}`);
  }
}

function organizationMakers(found: string): OrganizationMakers {
  const makers = ORGANIZATION_MAKERS.find((one) => one === found);
  if (makers) return makers;
  const wanted = ORGANIZATION_MAKERS.join(" or ");
  throw new UsageError(`--organizations: found "${found}", wanted ${wanted}`);
}

/** Reads the key for the metrics page; creates it if there is none. */
async function readMetricsKey(
  { metricsKeyFile, data }: ServeOptions,
  host: Host,
): Promise<string> {
  const path = metricsKeyFile || `${data}/metrics.key`;
  if (await host.fileSize(path) === undefined) {
    await host.writeFile(path, `${randomBytes(METRICS_KEY_BYTES).toString("base64url")}\n`, { mode: 0o600 });
  }
  const key = (await host.readTextFile(path)).trim();
  if (key.length >= METRICS_KEY_CHARS_MIN) return key;
  throw new SvcError(
    "invalid_argument",
    `${path}: found a metrics key of ${key.length} characters, wanted at least ${METRICS_KEY_CHARS_MIN}`,
  );
}

/** The source of its own certificate; `undefined` if it serves without TLS. */
function certificateOf(
  { options: { tls, tlsCert, tlsKey, listen, machineDomain }, addresses, store, host, clock, logger }: Parts,
  { authority }: Cloud,
): PortCertificate | undefined {
  const parts = { host, clock, logger };
  if (tlsCert !== "" || tlsKey !== "") {
    return new PortCertificate({ ...parts, from: { certFile: tlsCert, keyFile: tlsKey } });
  }
  if (!tls) return undefined;
  const listening = addressOf("--listen", listen).host;
  const all = new Set([...addresses.hosts, listening, host.hostname(), "localhost", "127.0.0.1"]);
  const own = [...all].filter((one) => one !== "0.0.0.0" && one !== "::");
  const names = async () => [...own, ...await machineNames(store, machineDomain)];
  return new PortCertificate({ ...parts, from: { authority, names } });
}

function addressOf(flag: string, listen: string): { host: string; port: number } {
  const { v6, host = v6, port } =
    /^(?:\[(?<v6>[^\]]+)\]|(?<host>[^:]*)):(?<port>\d+)$/.exec(listen)?.groups ?? {};
  if (Number(port) <= PORT_MAX) return { host: host || "0.0.0.0", port: Number(port) };
  throw new UsageError(
    `${flag}: found "${listen}", wanted host:port such as localhost:8090`,
  );
}

/** What a service with these flags would listen on. Throws for addresses that it could not use. */
function listensOf({ listen, stun, tls, tlsCert, publicUrl }: ServeOptions, host: Host): Listens {
  new Addresses(publicUrl, host.hostname(), host);
  const bind = addressOf("--listen", listen);
  const ports = [bind.port, ...stun === "" ? [] : [addressOf("--stun", stun).port]];
  return { scheme: tls || tlsCert !== "" ? "https" : "http", ...bind, ports };
}

/** The scripts that install agents; the build embeds them. */
async function installers(host: Host): Promise<Map<string, string>> {
  const scripts = ["install.sh", "install.ps1"].map(async (name) => {
    const path = fileURLToPath(new URL(`../../../install/${name}`, import.meta.url));
    return [`/${name}`, await host.readTextFile(path)] as const;
  });
  return new Map(await Promise.all(scripts));
}
