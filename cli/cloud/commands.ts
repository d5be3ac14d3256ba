/**
 * What people do to a control plane from the command line: its organizations, machines, keys, configurations, logs.
 *
 * Each command works on the database itself, whether or not a control plane is being served from it. It prints text
 * for people, or with --json one value; hints go to standard error.
 */

import type { LogEntry } from "../../proto/gen/common_pb.ts";
import { type Clock, SystemClock } from "../../lib/base/clock.ts";
import { messageOf, SvcError } from "../../lib/base/error.ts";
import { escaped, escapedLine } from "../../lib/base/escape.ts";
import type { Host } from "../../lib/base/host.ts";
import { jsonDiff } from "../../lib/base/schema/json_secrets.ts";
import { parseJsonc } from "../../lib/base/schema/jsonc.ts";
import { isObject, type JsonObject } from "../../lib/base/schema/schema.ts";
import { toMs } from "../../lib/api/shared/time.ts";
import { notedAddress } from "../../lib/cloud/addresses.ts";
import { savePartConfig } from "../../lib/cloud/fleet/part_service.ts";
import { Audit, type Subject } from "../../lib/cloud/access/audit.ts";
import { personActing, type Validate } from "../../lib/cloud/context.ts";
import type { FileStore } from "../../lib/cloud/store/files.ts";
import { Fleet } from "../../lib/cloud/fleet/fleet.ts";
import {
  type Grant,
  GRANT_KINDS,
  Keys,
  type NewKey,
  newKeySecret,
  ROLES,
} from "../../lib/cloud/access/keys.ts";
import { fieldsOf, fieldsText } from "../../lib/cloud_client/log_fields.ts";
import { Logs } from "../../lib/cloud/logs/logs.ts";
import { PartConfigs } from "../../lib/cloud/fleet/part_config.ts";
import type { SecretsParts } from "../../lib/cloud/store/secrets.ts";
import type { Sql, Store } from "../../lib/cloud/store/store.ts";
import type { Flag, Values } from "../flags.ts";

/** What a command works with. */
export interface Desk {
  readonly store: Store;
  /** What has been uploaded. */
  readonly files: () => Promise<FileStore>;
  /** Of the control plane's own keys. */
  readonly secrets: SecretsParts;
  readonly clock: Clock;
  readonly host: Host;
  readonly validate: Validate;
  /** Prints a result: the value with --json, else the lines. */
  print(value: unknown, lines: readonly string[]): void;
  /** Runs a change and notes in the audit log who made it. */
  change<T>(action: string, on: Subject, work: (sql: Sql, nowMs: number) => Promise<T>): Promise<T>;
}

export interface Command {
  /** `key create` */
  readonly words: string;
  /** The words that follow, as they stand in the usage line: `NAME`. */
  readonly takes: readonly string[];
  readonly summary: string;
  readonly flags: readonly Flag[];
  run(desk: Desk, words: readonly string[], flags: never): Promise<void>;
}

export function command<const F extends readonly Flag[]>(
  words: string,
  takes: readonly string[],
  summary: string,
  flags: F,
  run: (desk: Desk, words: readonly string[], flags: Values<F>) => Promise<void>,
): Command {
  return { words, takes, summary, flags, run };
}

export const ORG = {
  name: "org",
  type: "string",
  default: "",
  value: "NAME|ID",
  help: "Organization; may be left out where there is one.",
} as const;
const LOCATION = {
  name: "location",
  type: "string",
  default: "",
  value: "NAME|ID",
  help: "Location; may be left out where there is one.",
} as const;

const ROLE = {
  name: "role",
  type: "string",
  default: "operator",
  value: "ROLE",
  help: "owner or operator",
} as const;
const ON = {
  name: "on",
  type: "string",
  default: "",
  value: "KIND:ID",
  help:
    "What the role is on: organization:ID, location:ID or machine:ID; where left out, the one organization.",
} as const;

const LOG_LEVELS = ["debug", "info", "warn", "error", "fatal", "panic", "dpanic"];

const organizations: readonly Command[] = [
  command("org create", ["NAME"], "Makes an organization.", [], async ({ change, print }, [name]) => {
    const id = await change(
      "org create",
      { kind: "organization", id: name },
      (sql, nowMs) => new Fleet(sql).createOrganization(name, nowMs),
    );
    print({ id, name }, [id]);
  }),
  command("org list", [], "Lists the organizations.", [], async ({ store, print }) => {
    const all = await new Fleet(store).organizations();
    print(all, table(all.map(({ id, name }) => [id, name])));
  }),
  command(
    "location create",
    ["NAME"],
    "Makes a location in an organization.",
    [ORG],
    async (desk, [name], { org }) => {
      const { id: on } = await organizationOf(desk.store, org);
      const id = await desk.change(
        "location create",
        { kind: "organization", id: on },
        (sql, nowMs) => new Fleet(sql).createLocation(on, name, "", nowMs),
      );
      desk.print({ id, name, organizationId: on }, [id]);
    },
  ),
  command("location list", [], "Lists the locations of an organization.", [ORG], async (desk, _, { org }) => {
    const all = await new Fleet(desk.store).locations((await organizationOf(desk.store, org)).id);
    desk.print(all, table(all.map(({ id, name, machines }) => [id, name, `${machines} machines`])));
  }),
];

/** The address that machines get before the first `serve`: the default of its `--listen`. */
const NOBODY_SERVED = "http://localhost:8090";

const machines: readonly Command[] = [
  command(
    "machine create",
    ["NAME"],
    "Makes a machine with a key of its own, and prints the cloud section for its file.",
    [ORG, LOCATION, {
      name: "address",
      type: "string",
      default: "",
      value: "URL",
      help:
        "Where the machine reaches the control plane; left out, the address that serve was last given or had.",
    }],
    async (desk, [name], { org, location, address }) => {
      const { id: on } = await locationOf(desk.store, org, location);
      const url = address || await notedAddress(desk.store) || NOBODY_SERVED;
      const secret = await newKeySecret();
      const made = await desk.change(
        "machine create",
        { kind: "location", id: on },
        (sql, nowMs) => createMachine(sql, secret, on, name, nowMs),
      );
      const section = cloudSection(made.partId, made.key, url);
      desk.print({ ...made, config: section }, [JSON.stringify(section, null, 2)]);
    },
  ),
  command(
    "machine list",
    [],
    "Lists the machines of an organization, with their parts.",
    [ORG],
    async (desk, _, { org }) => {
      const all = await new Fleet(desk.store).partsOfOrganization((await organizationOf(desk.store, org)).id);
      const seen = (ms: number | null) => ms === null ? "never seen" : `seen ${timeOf(ms)}`;
      desk.print(
        all,
        table(all.map((one) => [one.machineId, one.machineName, one.id, one.name, seen(one.seenMs)])),
      );
    },
  ),
  command(
    "machine delete",
    ["ID"],
    "Removes a machine, its parts and their history.",
    [],
    async ({ change, print }, [id]) => {
      await change("machine delete", { kind: "machine", id }, async (sql) => {
        await new Fleet(sql).machine(id);
        await new Fleet(sql).deleteMachine(id);
      });
      print({ id }, []);
    },
  ),
  command("restart", ["PART"], "Orders a part's program to restart.", [], async ({ change, print }, [id]) => {
    await change("restart", { kind: "part", id }, async (sql) => {
      await new Fleet(sql).part(id);
      await sql.query("UPDATE parts SET restart = 1 WHERE id = ?", id);
    });
    print({ id }, []);
  }),
];

const keys: readonly Command[] = [
  command(
    "key create",
    [],
    "Makes an API key and prints it: this is the only time that it can be seen.",
    [
      ROLE,
      ON,
      { name: "name", type: "string", default: "", value: "NAME", help: "What to call it." },
    ],
    async (desk, _, { role, on, name }) => {
      const grant = await grantOf(desk.store, role, on);
      const secret = await newKeySecret();
      const key = await desk.change(
        "key create",
        { kind: grant.kind, id: grant.resourceId },
        (sql, nowMs) => new Keys(sql).create(secret, name, [grant], nowMs),
      );
      desk.print({ ...key, ...grant }, [`id:  ${key.id}`, `key: ${key.key}`]);
    },
  ),
  command(
    "key list",
    [],
    "Lists the API keys with whose they are and what they may do.",
    [],
    async ({ store, print }) => {
      const all = await new Keys(store).all();
      const may = (grants: readonly Grant[]) =>
        grants.map((one) => `${one.role} of ${one.kind} ${one.resourceId}`).join(", ");
      const rows = all.map((
        key,
      ) => [key.id, key.name, `of ${key.organizationId ?? "nobody"}`, may(key.grants)]);
      print(all, table(rows));
    },
  ),
  command(
    "key grant",
    ["ID"],
    "Gives an API key a role, on what belongs to another organization than the key too.",
    [ROLE, ON],
    async (desk, [id], { role, on }) => {
      const grant = await grantOf(desk.store, role, on);
      await desk.change("key grant", { kind: "key", id }, (sql) => new Keys(sql).grant(id, grant));
      desk.print({ id, ...grant }, []);
    },
  ),
  command(
    "key own",
    ["ID"],
    "Makes an API key that of an organization, whose owners then rename, replace and delete it.",
    [ORG],
    async (desk, [id], { org }) => {
      const { id: organizationId } = await organizationOf(desk.store, org);
      await desk.change("key own", { kind: "key", id }, (sql) => new Keys(sql).own(id, organizationId));
      desk.print({ id, organizationId }, []);
    },
  ),
  command(
    "key rotate",
    ["ID"],
    "Replaces an API key by a new one with the same id.",
    [],
    async ({ change, print }, [id]) => {
      const secret = await newKeySecret();
      const key = await change("key rotate", { kind: "key", id }, (sql) => new Keys(sql).rotate(id, secret));
      print(key, [`id:  ${key.id}`, `key: ${key.key}`]);
    },
  ),
  command(
    "key revoke",
    ["ID"],
    "Takes an API key out of use, at once.",
    [],
    async ({ change, print }, [id]) => {
      await change("key revoke", { kind: "key", id }, (sql) => new Keys(sql).delete(id));
      print({ id }, []);
    },
  ),
];

const configurations: readonly Command[] = [
  command(
    "config show",
    ["PART"],
    "Prints a part's configuration.",
    [{ name: "revision", type: "int", default: -1, help: "An earlier one." }],
    async ({ store, print }, [part], { revision }) => {
      const configs = new PartConfigs(store);
      const config = revision < 0 ? (await configs.get(part)).config : await configs.at(part, revision);
      print(config, [JSON.stringify(config, null, 2)]);
    },
  ),
  command(
    "config set",
    ["PART", "FILE"],
    "Checks a configuration and makes it the part's next revision.",
    [],
    async (desk, [part, file]) => {
      const json = parseJsonc(await desk.host.readFile(file), { file });
      if (!isObject(json)) {
        throw new SvcError(
          "invalid_argument",
          `${file}: wanted an object such as {"components": []}`,
        );
      }
      await saveConfig(desk, "config set", part, () => Promise.resolve(json as JsonObject));
    },
  ),
  command(
    "config history",
    ["PART"],
    "Tells who changed what and when, newest first.",
    [{ name: "limit", type: "int", default: 20, help: "How many changes." }],
    async ({ store, print }, [part], { limit }) => {
      const configs = new PartConfigs(store);
      const changes = await Promise.all(
        (await configs.history(part, { limit })).map(async ({ old, ...change }) => ({
          ...change,
          diff: jsonDiff(old, await configs.at(part, change.revision)),
        })),
      );
      print(
        changes,
        changes.flatMap(({ revision, atMs, who, diff }) => [
          `revision ${revision}  ${timeOf(atMs)}  ${who}`,
          ...diff.map((line) => `  ${line}`),
        ]),
      );
    },
  ),
  command(
    "config restore",
    ["PART", "REVISION"],
    "Makes an earlier revision the next one.",
    [],
    async (desk, [part, revision]) => {
      if (!/^\d+$/.test(revision)) {
        throw new SvcError(
          "invalid_argument",
          `"${revision}" is no revision, wanted a number`,
        );
      }
      await saveConfig(
        desk,
        "config restore",
        part,
        (sql) => new PartConfigs(sql).at(part, Number(revision)),
      );
    },
  ),
];

const records: readonly Command[] = [
  command(
    "logs",
    ["PART"],
    "Prints a part's newest logs, oldest first.",
    [
      { name: "filter", type: "string", default: "", value: "TEXT", help: "Only entries that contain this." },
      {
        name: "level",
        type: "string",
        default: "",
        value: "LEVEL",
        help: `Only entries of this level: ${LOG_LEVELS.join(", ")}.`,
      },
      { name: "limit", type: "int", default: 100, help: "How many entries." },
      {
        name: "follow",
        short: "f",
        type: "bool",
        default: false,
        help: "Go on with what comes in, until told to stop.",
      },
    ],
    async ({ store, clock, host, print }, [part], { filter, level, limit, follow }) => {
      await new Fleet(store).part(part);
      const levels = level === "" ? [] : [logLevelOf(level)];
      if (limit < 1) throw new SvcError("invalid_argument", `--limit: found ${limit}, wanted 1 or more`);
      const logs = new Logs(store, clock);
      const tell = (entries: readonly LogEntry[]) => {
        const plain = entries.map(plainEntry);
        print(
          plain,
          entries.map((entry, index) => {
            const { time, level, logger, message } = plain[index];
            const head = [time, level.toUpperCase(), logger].map(escapedLine);
            const fields = fieldsText(entry);
            return [...head, message.replaceAll("\n", "\n\t"), ...fields ? [escapedLine(fields)] : []].join(
              "\t",
            );
          }),
        );
      };
      const found = await logs.find(part, { filter, levels, limit, order: "newest first" });
      const after = found.at(0)?.number;
      tell(found.reverse().map(({ entry }) => entry));
      if (!follow) return;
      const stop = new AbortController();
      const ignore = host.onTermination(() => stop.abort());
      try {
        for await (const entries of logs.follow(part, { filter, levels, after }, stop.signal)) tell(entries);
      } catch (error) {
        if (!stop.signal.aborted) throw error;
      } finally {
        ignore();
      }
    },
  ),
  command(
    "audit",
    [],
    "Tells who changed or tried what, newest first.",
    [{ name: "limit", type: "int", default: 50, help: "How many entries." }],
    async ({ store, clock, print }, _, { limit }) => {
      const entries = await new Audit(store, clock).newest(limit);
      print(
        entries,
        table(entries.map((one) => [timeOf(one.atMs), one.who, one.action, one.resource, one.outcome])),
      );
    },
  ),
];

function plainEntry(entry: LogEntry) {
  const { time, level, loggerName: logger, message } = entry;
  return { time: timeOf(toMs(time)), level, logger, message, fields: fieldsOf(entry) };
}

/** A level that machines log at. Modules may log `fatal`, `panic` and `dpanic`. */
function logLevelOf(text: string): string {
  const level = /^warning$/i.test(text) ? "warn" : text.toLowerCase();
  if (LOG_LEVELS.includes(level)) return level;
  throw new SvcError("invalid_argument", `--level: found "${text}", wanted one of ${LOG_LEVELS.join(", ")}`);
}

/** Every command but `serve` and `init`. */
export const COMMANDS: readonly Command[] = [
  ...organizations,
  ...machines,
  ...keys,
  ...configurations,
  ...records,
];

export function openDesk(
  { store, files, secrets, host, validate }: Pick<Desk, "store" | "files" | "secrets" | "host" | "validate">,
  json: boolean,
): Desk {
  const clock = new SystemClock();
  const user = host.env("USER") || host.env("USERNAME") || "unknown";
  return {
    store,
    files,
    secrets,
    clock,
    host,
    validate,
    print: (value, lines) => {
      if (json) host.write(`${JSON.stringify(value)}\n`);
      else if (lines.length > 0) host.write(`${escaped(lines.join("\n"))}\n`);
    },
    change: (action, on, work) => new Audit(store, clock).change(personActing(user, action), on, work),
  };
}

/** A machine with a key of its own, that lets it do what a machine does and no more. */
export async function createMachine(
  sql: Sql,
  secret: Awaited<ReturnType<typeof newKeySecret>>,
  locationId: string,
  name: string,
  nowMs: number,
): Promise<{ id: string; partId: string; key: NewKey }> {
  const machine = await new Fleet(sql).createMachine(locationId, name, nowMs);
  const grant: Grant = { role: "operator", kind: "machine", resourceId: machine.id };
  return { ...machine, key: await new Keys(sql).create(secret, `machine ${name}`, [grant], nowMs) };
}

/** What to put into the file of a machine. */
export function cloudSection(partId: string, { id, key }: NewKey, address: string): JsonObject {
  return { cloud: { id: partId, app_address: address, api_key: { id, key } } };
}

async function saveConfig(
  desk: Desk,
  action: string,
  id: string,
  config: (sql: Sql) => Promise<JsonObject>,
): Promise<void> {
  const { revision } = await desk.change(action, { kind: "part", id }, async (sql, nowMs) => {
    const part = await new Fleet(sql).part(id);
    const who = personActing(desk.host.env("USER") || "unknown", action).who;
    await savePartConfig(desk, sql, part, await config(sql), who, nowMs);
    return await new PartConfigs(sql).get(id);
  });
  desk.print({ id, revision }, [`revision ${revision}`]);
}

async function grantOf(store: Store, role: string, on: string): Promise<Grant> {
  const known = ROLES.find((one) => one === role);
  if (!known) throw new SvcError("invalid_argument", `--role: found "${role}", wanted ${ROLES.join(" or ")}`);
  if (on === "") {
    return { role: known, kind: "organization", resourceId: (await organizationOf(store, "")).id };
  }
  const [kind, id = ""] = on.split(":");
  const fleet = new Fleet(store);
  const found = GRANT_KINDS.find((one) => one === kind);
  if (!found) throw new SvcError("invalid_argument", `--on: found "${on}", wanted for example machine:ID`);
  const { id: resourceId } = await {
    organization: () => fleet.organization(id),
    location: () => fleet.location(id),
    machine: () => fleet.machine(id),
  }[found]();
  return { role: known, kind: found, resourceId };
}

export async function organizationOf(store: Store, wanted: string) {
  return only("organization", "org", wanted, await new Fleet(store).organizations());
}

async function locationOf(store: Store, org: string, wanted: string) {
  const { id } = await organizationOf(store, org);
  return only("location", "location", wanted, await new Fleet(store).locations(id));
}

/** The one that is meant, by id or by name. */
function only<T extends { id: string; name: string }>(
  what: string,
  flag: string,
  wanted: string,
  all: T[],
): T {
  const found = wanted === "" ? all : all.filter(({ id, name }) => id === wanted || name === wanted);
  if (found.length === 1) return found[0];
  if (wanted !== "") throw new SvcError("not_found", `there is no ${what} "${wanted}"`);
  if (found.length === 0) {
    throw new SvcError("failed_precondition", `there is no ${what} yet: make one first`);
  }
  throw new SvcError("invalid_argument", `there are ${found.length} ${what}s: tell which one with --${flag}`);
}

export function timeOf(ms: number): string {
  try {
    return new Date(ms).toISOString();
  } catch (error) {
    return `${ms} (${messageOf(error)})`;
  }
}

/** Rows as columns of text. */
export function table(cells: readonly (readonly string[])[]): string[] {
  const rows = cells.map((row) => row.map(escapedLine));
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  return rows.map((row) => row.map((cell, column) => cell.padEnd(widths[column])).join("  ").trimEnd());
}
