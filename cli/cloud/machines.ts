/**
 * Commands on machines: the machines, their programs, and restart orders.
 */

import type { Clock } from "../../lib/base/clock.ts";
import { silentLogs } from "../../lib/base/log/log.ts";
import { formatDuration } from "../../lib/base/schema/schema.ts";
import { parseVersion } from "../../lib/base/semver.ts";
import { newKeySecret } from "../../lib/cloud/access/keys.ts";
import { notedAddress } from "../../lib/cloud/addresses/addresses.ts";
import type { ConfigThreads } from "../../lib/cloud/config/config_threads.ts";
import { MachineTags } from "../../lib/cloud/tenants/machine_tags.ts";
import { Machines } from "../../lib/cloud/tenants/machines.ts";
import { type Part, Parts } from "../../lib/cloud/tenants/parts.ts";
import { cloudSection, createMachine, moveMachine } from "../../lib/cloud/fleet/new_machine.ts";
import { configState, partReports, readWanted, runningServer } from "../../lib/cloud/fleet/part_reports.ts";
import { Presence } from "../../lib/cloud/tenants/presence.ts";
import type { Store } from "../../lib/cloud/store/store.ts";
import { type Listing, shownMs } from "../table.ts";
import {
  chosenOrganization,
  type CloudCommand,
  cloudCommand,
  findLocation,
  fleetNames,
  LOCATION,
  machineNamed,
  OF_ORG,
  ORG,
} from "./command_context.ts";
import { selectedParts, SELECTION_FLAGS, taggedParts } from "./selection.ts";

const MINUTE_MS = 60_000;
/** The address that machines get before the first `serve`: the default of its `--listen`. */
const NOBODY_SERVED = "http://localhost:8090";

export const MACHINE_COMMANDS: readonly CloudCommand[] = [
  cloudCommand(
    "machine create",
    ["NAME"],
    "Creates a machine with its own key, and prints the cloud section for its file.",
    [ORG, LOCATION, {
      name: "address",
      type: "string",
      default: "",
      value: "URL",
      help: "The address of the control plane for the machine; by default the last address of serve.",
    }],
    async (context, [name], { org, location, address }) => {
      const { id: on } = await findLocation(context.store, org, location);
      const url = address || await notedAddress(context.store) || NOBODY_SERVED;
      const secret = await newKeySecret(context.who);
      const made = await context.change(
        "machine create",
        { kind: "location", id: on },
        (sql, nowMs) => createMachine(sql, secret, on, name, nowMs),
      );
      const section = cloudSection(made.partId, made.key, url);
      context.print({ ...made, config: section }, [JSON.stringify(section, null, 2)]);
    },
  ),
  cloudCommand(
    "machine list",
    [],
    "Lists the machines of an organization, with their parts.",
    [ORG],
    async (context, _, { org }) => {
      const { id } = await chosenOrganization(context.store, org);
      const all = await new Parts(context.store).ofOrganization(id);
      const locations = await fleetNames(context.store);
      const byMachine = Map.groupBy(all, ({ machineId }) => machineId);
      const tags = await new MachineTags(context.store).ofMachines([...byMachine.keys()]);
      const locationOf = (one: Part) => locations.get(one.locationId) ?? one.locationId;
      const machines = [...byMachine.values()].map((parts) => {
        const one = parts[0]!;
        return {
          id: one.machineId,
          name: one.machineName,
          location: locationOf(one),
          tags: tags.get(one.machineId) ?? [],
          parts: parts.map(({ id, name, main, seenMs }) => ({ id, name, main: main === 1, seenMs })),
        };
      });
      context.list("machines", machines, {
        columns: [
          { heading: "MACHINE", cutTo: 12 },
          { heading: "PART", cutTo: 12, rank: 3 },
          { heading: "LOCATION", cutTo: 10, rank: 2 },
          { heading: "TAGS", cutTo: 10, rank: 4 },
          { heading: "SEEN (UTC)", rank: 1 },
          { heading: "PART ID", cutTo: 9 },
        ],
        rows: all.map((one) => [
          one.machineName,
          one.name,
          locationOf(one),
          (tags.get(one.machineId) ?? []).join(" ") || "-",
          shownMs(one.seenMs),
          one.id,
        ]),
        empty: "there is no machine yet: svc-cloud machine create NAME makes one",
      });
    },
  ),
  cloudCommand(
    "machine rename",
    ["MACHINE", "NEW"],
    "Renames a machine.",
    [OF_ORG],
    async ({ store, change, print }, [given, name], { org }) => {
      const { id } = await machineNamed(store, given, org);
      await change("machine rename", { kind: "machine", id }, async (sql, nowMs) => {
        const { locationId } = await new Machines(sql).get(id);
        await moveMachine(sql, id, { name, locationId }, nowMs);
      });
      print({ id, name }, [`${id} ${name}`]);
    },
  ),
  cloudCommand(
    "machine move",
    ["MACHINE", "LOCATION"],
    "Moves a machine to another location, by its name or id. In another organization (--org) it begins anew.",
    [ORG],
    async (context, [machine, given], { org }) => {
      const { id } = await machineNamed(context.store, machine);
      const { id: locationId, name: location } = await findLocation(context.store, org, given);
      await context.change("machine move", { kind: "machine", id }, async (sql, nowMs) => {
        const { name } = await new Machines(sql).get(id);
        await moveMachine(sql, id, { name, locationId }, nowMs);
      });
      context.print({ id, locationId }, [`${id} is in ${location}`]);
    },
  ),
  tagCommand(
    "machine tag",
    "Gives a machine tags, by which commands choose it: --tag TAG.",
    (all, id, tags) => all.add(id, tags),
  ),
  tagCommand(
    "machine untag",
    "Takes tags from a machine.",
    (all, id, tags) => all.remove(id, tags),
  ),
  cloudCommand(
    "machine delete",
    ["MACHINE"],
    "Removes a machine, its parts and their history.",
    [OF_ORG],
    async ({ store, change, print }, [given], { org }) => {
      const { id, name } = await machineNamed(store, given, org);
      await change("machine delete", { kind: "machine", id }, async (sql, nowMs) => {
        await new Machines(sql).delete(id, nowMs);
      });
      print({ id, name }, []);
    },
  ),
  cloudCommand(
    "restart",
    ["[PART...]"],
    "Orders the programs of parts to restart.",
    SELECTION_FLAGS,
    async ({ store, change, print }, words, flags) => {
      const parts = await selectedParts(store, words, flags);
      for (const { id } of parts) {
        await change("restart", { kind: "part", id }, async (sql) => {
          await new Parts(sql).orderRestart(id);
        });
      }
      const names = parts.map(({ name }) => name);
      print({ parts: parts.map(({ id, name }) => ({ id, name })) }, [
        `ordered to restart: ${names.join(", ") || "none"}`,
      ]);
    },
  ),
  cloudCommand(
    "fleet",
    [],
    "Lists the machines: what they run, want and have refused, whether their configuration is applied, and what in " +
      "them does not work.",
    [
      ORG,
      LOCATION,
      { name: "tag", type: "string", default: "", value: "TAG", help: "Only machines with this tag." },
      {
        name: "behind",
        type: "bool",
        default: false,
        help: "Only those that want another version than they run, or have refused one.",
      },
      { name: "offline", type: "bool", default: false, help: "Only those that are not online." },
      {
        name: "unhealthy",
        type: "bool",
        default: false,
        help: "Only those with a resource that does not work, or with another configuration than theirs.",
      },
      {
        name: "runs",
        type: "string",
        default: "",
        value: "VERSION",
        help: "Only those that run this svc-server.",
      },
    ],
    async ({ store, clock, configs, list }, _, flags) => {
      const { org, location, tag, behind, offline, unhealthy, runs: wanted } = flags;
      const { id } = await chosenOrganization(store, org);
      const at = location === "" ? undefined : (await findLocation(store, org, location)).id;
      const tagged = tag === "" ? undefined : await taggedParts(store, id, tag);
      const chosen = new Set(tagged?.map(({ id }) => id));
      const all = await fleetReports(store, clock, configs, id);
      const rows = all.filter((one) =>
        (!offline || one.state !== "online") && (at === undefined || one.locationId === at) &&
        (!tagged || chosen.has(one.partId)) && (!behind || isBehind(one)) &&
        (!unhealthy || isUnhealthy(one)) &&
        (wanted === "" || serverOf(one) === wanted)
      );
      list("machines", rows, fleetTable(rows));
    },
  ),
];

/** Changes the tags of a machine, and prints those that it has then. */
function tagCommand(
  name: string,
  summary: string,
  change: (all: MachineTags, machineId: string, tags: readonly string[]) => Promise<void>,
): CloudCommand {
  return cloudCommand(
    name,
    ["MACHINE", "TAG..."],
    summary,
    [OF_ORG],
    async (context, [given, ...tags], { org }) => {
      const { id, name: machine } = await machineNamed(context.store, given, org);
      await context.change(name, { kind: "machine", id }, (sql) => change(new MachineTags(sql), id, tags));
      const all = await new MachineTags(context.store).read(id);
      context.print({ id, name: machine, tags: all }, [all.join(" ")]);
    },
  );
}

type FleetReport = Awaited<ReturnType<typeof fleetReports>>[number];

/** What the control plane knows of each part of an organization. */
async function fleetReports(store: Store, clock: Clock, configs: ConfigThreads, organizationId: string) {
  const reports = await partReports(store, await new Parts(store).ofOrganization(organizationId));
  const names = await fleetNames(store);
  const presence = new Presence(store, clock, silentLogs(clock).logger("presence"));
  try {
    const rows = [];
    for (const { part, info, tags, unhealthy, health, agent } of reports) {
      const { git_revision: gitRevision, ...own } = info;
      const wanted = await readWanted(store, configs, organizationId, part.id);
      rows.push({
        ...own,
        gitRevision,
        partId: part.id,
        part: part.name,
        machineId: part.machineId,
        machine: part.machineName,
        locationId: part.locationId,
        location: names.get(part.locationId) ?? part.locationId,
        tags,
        wanted: wanted.versions,
        config: configState(wanted.revision, health),
        unhealthy,
        state: presence.state(part.seenMs ?? undefined),
        seenMs: part.seenMs,
        agent: agent ?? null,
      });
    }
    return rows;
  } finally {
    await presence.close();
  }
}

function serverOf(report: FleetReport): string {
  return runningServer({ agent: report.agent ?? undefined, info: report });
}

function isUnhealthy({ unhealthy, config }: FleetReport): boolean {
  return unhealthy.length > 0 || config.state === "behind";
}

/** Whether a part wants a very version that it does not run, has one installed that it does not run, or refused one. */
function isBehind(report: FleetReport): boolean {
  const { agent, wanted } = report;
  if (!agent) return false;
  const differs = (want: string, running: string, installed: string) =>
    (parseVersion(want) !== undefined && want !== running) || (installed !== "" && installed !== running);
  return differs(wanted.server, serverOf(report), agent.serverInstalled) ||
    differs(wanted.agent, agent.agentRunning, agent.agentInstalled) || agent.refused.length > 0;
}

function fleetTable(rows: readonly FleetReport[]): Listing {
  return {
    columns: [
      { heading: "MACHINE", cutTo: 10 },
      { heading: "LOCATION", cutTo: 8, rank: 3 },
      { heading: "STATE", isState: true },
      { heading: "UNHEALTHY", cutTo: 12 },
      { heading: "CONFIG", isState: true, cutTo: 7, rank: 1 },
      { heading: "SEEN (UTC)", rank: 4 },
      { heading: "SVC-SERVER", cutTo: 10 },
      { heading: "WANTED", cutTo: 8, rank: 5 },
      { heading: "REFUSED", cutTo: 12, rank: 8 },
      { heading: "AGENT", cutTo: 8, rank: 2 },
      { heading: "UPTIME", rank: 6 },
      { heading: "PLATFORM", cutTo: 8, rank: 9 },
      { heading: "PART ID", cutTo: 9, rank: 7 },
    ],
    rows: rows.map((one) => [
      one.part === `${one.machine}-main` ? one.machine : one.part,
      one.location,
      one.state,
      one.unhealthy.map(nameOfBroken).join(", ") || "-",
      one.config.state === "unknown" ? "-" : one.config.state,
      shownMs(one.seenMs),
      runs(serverOf(one), one.agent?.serverInstalled ?? ""),
      one.wanted.agent === "stable" ? one.wanted.server : `${one.wanted.server}, agent ${one.wanted.agent}`,
      one.agent?.refused.join(", ") || "-",
      runs(one.agent?.agentRunning ?? "", one.agent?.agentInstalled ?? ""),
      one.agent?.serverUptimeMs
        ? formatDuration(Math.floor(one.agent.serverUptimeMs / MINUTE_MS) * MINUTE_MS)
        : "-",
      one.agent?.platform || one.platform || "-",
      one.partId,
    ]),
    empty: "no machine: svc-cloud machine create NAME makes one, and svc-cloud fleet without flags shows all",
  };
}

/** `bad` of `rdk:component:motor/bad: it has no board`. */
function nameOfBroken(text: string): string {
  const [resource = ""] = text.split(": ", 1);
  return resource.slice(resource.lastIndexOf("/") + 1);
}

/** The running version, and the one after a restart if it differs. */
function runs(running: string, installed: string): string {
  const next = installed !== "" && installed !== running ? ` (${installed} installed)` : "";
  return `${running || "-"}${next}`;
}
