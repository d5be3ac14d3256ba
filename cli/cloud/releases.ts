/**
 * What a control plane hands out, from the command line: packages, programs for agents, and how the fleet runs them.
 *
 * Each command works as those of `commands.ts` do.
 */

import { createReadStream } from "node:fs";
import { SvcError } from "../../lib/base/error.ts";
import { formatDuration, type JsonObject } from "../../lib/base/schema/schema.ts";
import { agentReports } from "../../lib/cloud/fleet/agent_service.ts";
import { keepFile, releaseFile } from "../../lib/cloud/store/file_refs.ts";
import { Fleet } from "../../lib/cloud/fleet/fleet.ts";
import { type Change, takePackage } from "../../lib/cloud/packages/package_service.ts";
import { PACKAGE_KINDS, Packages, VISIBILITIES } from "../../lib/cloud/packages/packages.ts";
import { Presence } from "../../lib/cloud/fleet/presence.ts";
import { ReleaseKeys } from "../../lib/cloud/packages/release_keys.ts";
import { Secrets } from "../../lib/cloud/store/secrets.ts";
import {
  CHANNELS,
  checkProgram,
  PROGRAMS,
  RELEASE_BYTES_MAX,
  RELEASE_PLATFORMS,
  Releases,
} from "../../lib/cloud/packages/releases.ts";
import { Usage } from "../../lib/cloud/access/usage.ts";
import { silentLogs } from "../../lib/base/log/log.ts";
import { LIMITS, limitsOf } from "./limits.ts";
import { type Command, command, type Desk, ORG, organizationOf, table, timeOf } from "./commands.ts";

/** Of a program, as much as tells what it is. */
const HEAD_BYTES = 64;
const MINUTE_MS = 60_000;

const packages: readonly Command[] = [
  command("package list", [], "Lists the packages of an organization.", [ORG], async (desk, _, { org }) => {
    const { id } = await organizationOf(desk.store, org);
    const all = await new Packages(desk.store).list(id);
    desk.print(
      all.map(({ item, ...one }) => ({
        ...one,
        name: item.name,
        type: item.kind,
        visibility: item.visibility,
      })),
      table(all.map(({ item, version, platform, bytes, createdMs }) => [
        `${item.namespace ?? id}:${item.name}`,
        item.kind,
        version,
        platform || "any",
        item.visibility,
        `${bytes} bytes`,
        timeOf(createdMs),
      ])),
    );
  }),
  command(
    "package upload",
    ["NAME", "VERSION", "FILE"],
    "Adds a version of a package, from a .tar.gz.",
    [
      ORG,
      {
        name: "type",
        type: "string",
        default: "ml_model",
        value: "TYPE",
        help: `${PACKAGE_KINDS.slice(0, -1).join(", ")} or ${PACKAGE_KINDS.at(-1)}`,
      },
      {
        name: "platform",
        type: "string",
        default: "",
        value: "OS/ARCH",
        help: "For which it is, as in linux/amd64; where left out, for all.",
      },
      {
        name: "visibility",
        type: "string",
        default: "",
        value: "WHO",
        help: `Who finds it: ${VISIBILITIES.join(", ")}. A new one is private.`,
      },
      LIMITS,
    ],
    async (desk, [name, version, file], { org, type, platform, visibility, limits: path }) => {
      const kind = PACKAGE_KINDS.find((one) => one === type);
      if (!kind) throw unknown("--type", type, PACKAGE_KINDS);
      const { id: organizationId } = await organizationOf(desk.store, org);
      const metadata: JsonObject = visibility === "" ? {} : { visibility };
      const info = { organizationId, name, version, type: kind, platform, metadata };
      const limits = await limitsOf(path, desk.host);
      const usage = new Usage(desk.store, limits, desk.clock);
      const cloud = { store: desk.store, files: await desk.files(), usage, limits };
      const change: Change = (on, work) => desk.change("package upload", on, work);
      const added = await takePackage(cloud, change, info, await contentOf(desk, file));
      desk.print(added, [`${added.id} ${added.version}`]);
    },
  ),
  command(
    "package delete",
    ["ID", "VERSION"],
    "Removes a version of a package: ID is <organization>:<name>.",
    [],
    async (desk, [id, version]) => {
      const on = { kind: "package", id } as const;
      const gone = await desk.change("package delete", on, (sql) => new Packages(sql).delete(id, version));
      await letGo(desk, gone);
      desk.print({ id, version }, []);
    },
  ),
  command(
    "org namespace",
    ["NAMESPACE"],
    "Gives an organization the public name under which it shares packages, for good.",
    [ORG],
    async (desk, [namespace], { org }) => {
      const { id } = await organizationOf(desk.store, org);
      const on = { kind: "organization", id } as const;
      await desk.change("org namespace", on, (sql) => new Packages(sql).setNamespace(id, namespace));
      desk.print({ id, namespace }, [namespace]);
    },
  ),
];

const releases: readonly Command[] = [
  command(
    "release publish",
    ["NAME", "VERSION", "FILE"],
    `Adds a version of a program that agents install: ${PROGRAMS.join(" or ")}.`,
    [
      {
        name: "platform",
        type: "string",
        default: "linux/amd64",
        value: "OS/ARCH",
        help: RELEASE_PLATFORMS.join(", "),
      },
      { name: "channel", type: "string", default: "none", value: "CHANNEL", help: CHANNELS.join(", ") },
    ],
    async (desk, [name, version, file], { platform, channel }) => {
      const content = await contentOf(desk, file);
      for await (const head of createReadStream(file, { end: HEAD_BYTES - 1 })) {
        checkProgram(head, platform, file);
      }
      const files = await desk.files();
      const on = { kind: "release", id: `${name} ${version} ${platform}` } as const;
      const made = await keepFile(desk.store, files, content, RELEASE_BYTES_MAX, async (stored) => {
        await desk.change(
          "release publish",
          on,
          (sql, nowMs) => new Releases(sql).add({ name, version, platform, channel, file: stored }, nowMs),
        );
        return { name, version, platform, channel, ...stored };
      });
      desk.print(made, [`${name} ${version} for ${platform}: ${made.bytes} bytes, SHA-256 ${made.sha256}`]);
    },
  ),
  command("release list", [], "Lists the programs that agents install.", [], async ({ store, print }) => {
    const all = await new Releases(store).list();
    print(
      all,
      table(all.map((one) => [
        one.name,
        one.version,
        one.platform,
        one.channel,
        `${one.bytes} bytes`,
        timeOf(one.createdMs),
      ])),
    );
  }),
  command(
    "release channel",
    ["NAME", "VERSION", "CHANNEL"],
    "Moves a version, on all its platforms, to a channel: agents that follow it install the highest one in there.",
    [],
    async ({ change, print }, [name, version, channel]) => {
      const on = { kind: "release", id: `${name} ${version}` } as const;
      await change("release channel", on, (sql) => new Releases(sql).setChannel(name, version, channel));
      print({ name, version, channel }, [`${name} ${version} is in ${channel}`]);
    },
  ),
  command(
    "release delete",
    ["NAME", "VERSION"],
    "Removes a version on all its platforms.",
    [],
    async (desk, [name, version]) => {
      const on = { kind: "release", id: `${name} ${version}` } as const;
      const gone = await desk.change("release delete", on, (sql) => new Releases(sql).delete(name, version));
      await letGo(desk, gone);
      desk.print({ name, version }, []);
    },
  ),
  command(
    "release keys",
    [],
    "Lists the public keys of what is handed out, newest last: agents pin one of them.",
    [],
    async ({ secrets, print }) => {
      const all = new ReleaseKeys(await Secrets.open(secrets)).list();
      print(all, table(all.map((one) => [one.id, one.public_key, timeOf(one.created_ms)])));
    },
  ),
  command(
    "release rotate-key",
    [],
    "Replaces the key that signs what is handed out; the old one signs the new one, and nothing after it.",
    [],
    async ({ secrets, change, print }) => {
      const key = await new ReleaseKeys(await Secrets.open(secrets)).rotate();
      await change("release rotate-key", { kind: "release", id: key.id }, () => Promise.resolve());
      print(key, [`${key.id}  ${key.public_key}`]);
    },
  ),
];

const fleet: readonly Command[] = [
  command(
    "fleet",
    [],
    "Tells which machines are there and what runs on them.",
    [ORG],
    async ({ store, clock, print }, _, { org }) => {
      const { id } = await organizationOf(store, org);
      const parts = await new Fleet(store).partsOfOrganization(id);
      const reports = await agentReports(store, parts.map((one) => one.id));
      const presence = new Presence(store, clock, silentLogs(clock).logger("presence"));
      const rows = parts.map((part) => ({
        partId: part.id,
        part: part.name,
        machine: part.machineName,
        state: presence.state(part.seenMs ?? undefined),
        seenMs: part.seenMs,
        ...JSON.parse(part.info),
        agent: reports.get(part.id) ?? null,
      }));
      await presence.close();
      const head = ["PART", "STATE", "AGENT", "SVC-SERVER", "UPTIME", "PLATFORM"];
      const lines = rows.map(({ part, state, agent, version = "", platform = "" }) => [
        part,
        state,
        runs(agent?.agentRunning ?? "", agent?.agentInstalled ?? ""),
        runs(agent?.serverRunning || version, agent?.serverInstalled ?? ""),
        agent?.serverUptimeMs
          ? formatDuration(Math.floor(agent.serverUptimeMs / MINUTE_MS) * MINUTE_MS)
          : "-",
        agent?.platform || platform || "-",
      ]);
      print(rows, table([head, ...lines]));
    },
  ),
];

/** Commands beside those of `commands.ts`. */
export const RELEASE_COMMANDS: readonly Command[] = [...packages, ...releases, ...fleet];

/** What runs, and what will after a restart if that is something else. */
function runs(running: string, installed: string): string {
  const next = installed !== "" && installed !== running ? ` (${installed} installed)` : "";
  return `${running || "-"}${next}`;
}

async function contentOf({ host }: Desk, file: string): Promise<AsyncIterable<Uint8Array>> {
  if (await host.fileSize(file) === undefined) throw new SvcError("not_found", `there is no file ${file}`);
  return createReadStream(file);
}

async function letGo(desk: Desk, contents: readonly string[]): Promise<void> {
  const files = await desk.files();
  for (const sha256 of contents) await releaseFile(desk.store, files, sha256);
}

function unknown(what: string, found: string, wanted: readonly string[]): SvcError {
  return new SvcError("invalid_argument", `${what}: found "${found}", wanted one of ${wanted.join(", ")}`);
}
