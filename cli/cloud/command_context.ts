/**
 * The context of a `svc-cloud` command: the database of a control plane, its files and keys, and the output.
 *
 * A command works on the database itself, whether or not a control plane serves from it. It prints text for people, or
 * with --json one value; hints go to standard error. The audit log records changes.
 */

import { resolve } from "node:path";
import { type Clock, SystemClock } from "../../lib/base/clock.ts";
import { messageOf, SvcError } from "../../lib/base/error.ts";
import type { ReadFiles } from "../../lib/base/files/files.ts";
import type { Host } from "../../lib/base/host.ts";
import { userName } from "../../lib/base/native/environment.ts";
import type { PipeHost, ProcessTable } from "../../lib/base/process.ts";
import { parseJsonc } from "../../lib/base/schema/jsonc.ts";
import { didYouMean } from "../../lib/base/schema/suggest.ts";
import { Accounts } from "../../lib/cloud/accounts/accounts.ts";
import { Administrators } from "../../lib/cloud/access/administrators.ts";
import { Audit, type Subject } from "../../lib/cloud/access/audit.ts";
import { Keys } from "../../lib/cloud/access/keys.ts";
import { defaultLimits, type Limits, parseLimits } from "../../lib/cloud/access/limits.ts";
import { ConfigThreads, loadedThread } from "../../lib/cloud/config/config_threads.ts";
import { Fragments } from "../../lib/cloud/config/fragments/fragments.ts";
import { personActing } from "../../lib/cloud/access/context.ts";
import { Locations } from "../../lib/cloud/tenants/locations.ts";
import { Machines } from "../../lib/cloud/tenants/machines.ts";
import { Organizations } from "../../lib/cloud/tenants/organizations.ts";
import { Parts } from "../../lib/cloud/tenants/parts.ts";
import { releaseFile } from "../../lib/cloud/store/file_refs.ts";
import type { FileStore } from "../../lib/cloud/store/files.ts";
import { Secrets, type SecretsParts } from "../../lib/cloud/store/secrets/secrets.ts";
import { rootCertificateFile } from "../../lib/cloud/store/postgres/address.ts";
import type { Sql, Store } from "../../lib/cloud/store/store.ts";
import type { Command as AnyCommand, GivenWords } from "../command.ts";
import { type Flag, UsageError, type Values } from "../flags.ts";
import type { Listing } from "../table.ts";
import { ResultPrinter } from "./result_printer.ts";
import { namedOne, onlyOf } from "../lookup.ts";
import { openContents, requireContents } from "./contents/address.ts";
import { DATABASE_FILE, requireFolder, requireNoRest } from "./data_folder.ts";
import { remoteProfile } from "./remote/profiles.ts";
import { sqliteIn } from "./sqlite.ts";
import { openStore, type StoreAddress } from "../../lib/cloud/store/open_store.ts";
import type { CloudFlags, StoreFlags } from "./cloud_flags.ts";

/** Loaded by what checks a configuration: it has every model. */
const CHECKS = new URL("./checks/validator.ts", import.meta.url).href;

/** Loaded by commands from afar alone. */
const REMOTE = new URL("./remote/run.ts", import.meta.url).href;

/** The outside of the program. */
export interface CloudProgramContext {
  readonly host: Host;
  /** The administrator for whom a control plane runs the command. */
  readonly remote?: { readonly who: string };
}

export type CloudCommand = AnyCommand<CloudProgramContext>;

export interface FilesOptions {
  /** Opens the place although it has none of the contents. */
  readonly mayLack?: boolean;
}

/** The context of a command. */
export interface CloudCommandContext {
  readonly store: Store;
  /** The data folder. */
  readonly folder: string;
  /** The uploaded files. Throws `failed_precondition` if the place has none of them. */
  readonly files: (options?: FilesOptions) => Promise<FileStore>;
  /** The control plane's own keys. */
  readonly secrets: SecretsParts;
  readonly clock: Clock;
  readonly host: Host;
  readonly configs: ConfigThreads;
  /** Prints a result: the value with --json, else the lines. */
  print(value: unknown, lines: readonly string[]): void;
  /** Prints a configuration as it is: what looks like a time or an id in it is the user's own. */
  printConfig(config: unknown, text: string): void;
  /** Prints a list under its name, with --json as `{"machines": […]}`. */
  list(name: string, values: readonly unknown[], listing: Listing): void;
  /** The person at the command line, or the administrator from afar, as the audit log names them. */
  readonly who: string;
  /** Whether the command is an administrator's from afar. */
  readonly isRemote: boolean;
  /** Runs a change and records its author in the audit log. */
  change<T>(action: string, on: Subject, work: (sql: Sql, nowMs: number) => Promise<T>): Promise<T>;
}

export const JSON_FLAG = {
  name: "json",
  type: "bool",
  default: false,
  help: "Print one JSON value.",
} as const;

export const ORG = {
  name: "org",
  type: "string",
  default: "",
  value: "NAME|ID",
  help: "Organization; the only one by default.",
} as const;
/** For a command that takes the name of a machine or part, which several organizations may have. */
export const OF_ORG = { ...ORG, help: "Look for it in this organization only." } as const;
export const LOCATION = {
  name: "location",
  type: "string",
  default: "",
  value: "NAME|ID",
  help: "Location; the only one by default.",
} as const;

export const LIMITS_FLAG = {
  name: "limits",
  type: "string",
  default: "",
  value: "FILE",
  env: "SVC_CLOUD_LIMITS",
  help: "The file with limits for callers (JSON): see docs/limits.md.",
} as const satisfies Flag;

export async function readLimits(path: string, files: ReadFiles): Promise<Limits> {
  return path === ""
    ? defaultLimits()
    : parseLimits(parseJsonc(await files.readFile(path), { file: path }), path);
}

/** A command that works on a control plane's database. */
export function cloudCommand<const T extends readonly string[], const F extends readonly Flag[]>(
  words: string,
  takes: T,
  summary: string,
  flags: F,
  run: (context: CloudCommandContext, words: GivenWords<T>, flags: Values<F>) => Promise<void>,
): CloudCommand {
  const command = { words, takes, summary, flags: [...flags, JSON_FLAG] };
  const atContext = async (
    context: CloudProgramContext,
    given: GivenWords<T>,
    values: Values<F> & CloudFlags & { readonly json: boolean },
  ) => {
    const { host } = context;
    const profile = context.remote ? undefined : await remoteProfile(command, values, host);
    if (profile) {
      const { runFromAfar }: typeof import("./remote/run.ts") = await import(REMOTE);
      return await runFromAfar(command, given, values, { host, profile });
    }
    const place = located(values, host);
    await requireFolder(place, host);
    await withStore(place, host, async (store) => {
      const printer = new ResultPrinter(host, values.json, () => recordNames(store));
      try {
        await run(contextOf(store, place, printer, context), given, values);
      } finally {
        await printer.done();
      }
    });
  };
  return { ...command, run: atContext };
}

function contextOf(
  store: Store,
  place: StoreFlags,
  printer: ResultPrinter,
  { host, remote }: CloudProgramContext,
): CloudCommandContext {
  const clock = new SystemClock();
  const user = userName(host);
  const actorFor = (action: string) => remote ? { who: remote.who, action } : personActing(user, action);
  const secrets = secretsOf(place, store, host);
  Secrets.sealNotices(secrets);
  return {
    store,
    folder: place.data,
    files: async ({ mayLack = false } = {}) => {
      const files = await openContents(place, host, clock);
      if (!mayLack) await requireContents(store, files, place);
      return files;
    },
    secrets,
    clock,
    host,
    configs: ownConfigs(clock),
    print: (value, lines) => printer.print(value, lines),
    printConfig: (config, text) => printer.printConfig(config, text),
    list: (name, values, listing) => printer.list(name, values, listing),
    who: actorFor("").who,
    isRemote: remote !== undefined,
    change: (action, on, work) => new Audit(store, clock).change(actorFor(action), on, work),
  };
}

/** Checks configurations on the command's own thread. */
export function ownConfigs(clock: Clock): ConfigThreads {
  const load = async () => {
    const { validator }: typeof import("./checks/validator.ts") = await import(CHECKS);
    return validator();
  };
  return new ConfigThreads(loadedThread(load), defaultLimits(), clock);
}

/** The data folder as an absolute path, because child processes run in other folders. */
export function located<T extends StoreFlags>(values: T, host: Host): T {
  return { ...values, data: resolve(host.cwd(), values.data) };
}

/**
 * Opens the database of a control plane for the duration of `run`; creates it if there is none. `opening` may open it
 * again, if it fails.
 */
export async function withStore<T>(
  place: StoreFlags,
  host: Host,
  run: (store: Store) => Promise<T>,
  opening: (open: () => Promise<Store>) => Promise<Store> = (open) => open(),
): Promise<T> {
  await requireNoRest(place, host);
  // The folder is private to its owner; in one that was there before, the database itself is.
  await host.makeFolder(place.data, { mode: 0o700 });
  if (place.database === "") await makePrivate(`${place.data}/${DATABASE_FILE}`, host);
  const address = await locateDatabase(place, host);
  const store = await opening(() => openStore(address, new SystemClock()));
  try {
    return await run(store);
  } finally {
    await store.close();
  }
}

/** Configurations hold passwords. SQLite gives its other files the mode of the database. */
async function makePrivate(path: string, host: Host): Promise<void> {
  if (await host.stat(path) !== undefined) return;
  await host.createFile(path, "", { mode: 0o600 }).catch((error) => {
    // Another process has just made it.
    if (SvcError.from(error).code !== "already_exists") throw error;
  });
}

export async function locateDatabase(
  { data, database }: StoreFlags,
  host: PipeHost & ProcessTable & Pick<ReadFiles, "readTextFile">,
): Promise<StoreAddress> {
  if (database === "") return { sqlite: sqliteIn(`${data}/${DATABASE_FILE}`, host) };
  const file = rootCertificateFile(database);
  return { url: database, rootCertificate: file && await host.readTextFile(file) };
}

/** The control plane's own keys; remarks about them go to standard error. */
export function secretsOf({ data, keys }: StoreFlags, store: Store, host: Host): SecretsParts {
  const tell = (text: string) => host.writeError(`svc-cloud: ${text}\n`);
  const logger = { info: tell, warn: tell, error: tell };
  return { store, host, folder: keys || `${data}/keys`, clock: new SystemClock(), logger };
}

export async function chosenOrganization(store: Store, wanted: string) {
  return only("organization", "org", wanted, await new Organizations(store).all());
}

export async function findLocation(store: Store, org: string, wanted: string) {
  const { id } = await chosenOrganization(store, org);
  return only("location", "location", wanted, await new Locations(store).ofOrganization(id));
}

/** The names of organizations, locations, machines and parts by their ids. */
export async function fleetNames(store: Store): Promise<ReadonlyMap<string, string>> {
  const all = [
    ...await new Organizations(store).all(),
    ...await new Locations(store).all(),
    ...await new Machines(store).all(),
    ...await new Parts(store).all(),
  ];
  return new Map(all.map(({ id, name }) => [id, name]));
}

/** The names of whatever a record may mention, by id. */
export async function recordNames(store: Store): Promise<ReadonlyMap<string, string>> {
  const keys = await new Keys(store).all();
  const fragments = await new Fragments(store).names();
  const accounts = await new Accounts(store).all();
  const administrators = await new Administrators(store).all();
  return new Map([
    ...await fleetNames(store),
    ...keys.map(({ id, name }) => [id, name] as const),
    ...administrators.map(({ id, name }) => [id, name] as const),
    ...accounts.map(({ id, email }) => [id, email] as const),
    ...fragments.map(({ id, name }) => [id, name] as const),
  ]);
}

/** The ids of an organization, and of the locations, machines, parts, keys and fragments in it. */
export async function idsIn(store: Store, organizationId: string): Promise<ReadonlySet<string>> {
  const keys = (await new Keys(store).all()).filter((key) => key.organizationId === organizationId);
  const all = [
    ...await new Locations(store).ofOrganization(organizationId),
    ...await new Machines(store).ofOrganization(organizationId),
    ...await new Parts(store).ofOrganization(organizationId),
    ...await new Fragments(store).list(organizationId),
    ...keys,
  ];
  return new Set([organizationId, ...all.map(({ id }) => id)]);
}

/** A machine by its id, a beginning of it, or its name; of all organizations, or of the named one. */
export async function machineNamed(store: Store, wanted: string, org = "") {
  const all = org === ""
    ? await new Machines(store).all()
    : await new Machines(store).ofOrganization((await chosenOrganization(store, org)).id);
  return namedOne("machine", wanted, all);
}

/** A part likewise; the name of a machine means its main part. */
export async function partNamed(store: Store, wanted: string, org = "") {
  const all = org === ""
    ? await new Parts(store).all()
    : await new Parts(store).ofOrganization((await chosenOrganization(store, org)).id);
  const entries = all.map((one) => ({
    ...one,
    also: one.main === 1 ? [one.machineName, one.machineId] : [],
  }));
  return namedOne("part", wanted, entries);
}

/** The only entry, or the one that `wanted` names. */
function only<T extends { id: string; name: string }>(
  what: string,
  flag: string,
  wanted: string,
  all: T[],
): T {
  if (wanted !== "") return namedOne(what, wanted, all);
  const only = onlyOf(all);
  if (only) return only;
  if (all.length === 0) {
    throw new SvcError(
      "failed_precondition",
      `there is no ${what} yet: svc-cloud ${flag} create NAME makes one`,
    );
  }
  throw new UsageError(
    `there are ${all.length} ${what}s: tell which one with --${flag}: ${
      all.map(({ name }) => name).join(", ")
    }`,
  );
}

/** `2024-01-02T03:04:05.678Z` */
export function timeOf(ms: number): string {
  try {
    return new Date(ms).toISOString();
  } catch (error) {
    return `${ms} (${messageOf(error)})`;
  }
}

/** Reads a file for an upload. */
export async function openUpload(
  { host }: CloudCommandContext,
  file: string,
): Promise<AsyncIterable<Uint8Array>> {
  if (await host.fileSize(file) === undefined) throw new SvcError("not_found", `there is no file ${file}`);
  return host.readPieces(file);
}

/** Removes contents that no row refers to any more. */
export async function removeContents(
  context: CloudCommandContext,
  contents: readonly string[],
): Promise<void> {
  const files = await context.files();
  for (const sha256 of contents) await releaseFile(context.store, files, sha256);
}

export function unknown(what: string, found: string, wanted: readonly string[]): SvcError {
  const hint = didYouMean(found, wanted);
  const known = wanted.length === 0 ? "there is none yet" : `wanted one of ${wanted.join(", ")}${hint}`;
  return new UsageError(`${what}: found "${found}", ${known}`);
}
