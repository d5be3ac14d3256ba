/**
 * Commands on machines: the machines, their programs, and restart orders.
 */

import { silentLogs } from "../../lib/base/log/log.ts";
import { formatDuration } from "../../lib/base/schema/schema.ts";
import { newKeySecret } from "../../lib/cloud/access/keys.ts";
import { notedAddress } from "../../lib/cloud/addresses.ts";
import { agentReports } from "../../lib/cloud/fleet/agent_service.ts";
import { Fleet } from "../../lib/cloud/fleet/fleet.ts";
import { cloudSection, createMachine, moveMachine } from "../../lib/cloud/fleet/new_machine.ts";
import { Presence } from "../../lib/cloud/fleet/presence.ts";
import { table } from "../table.ts";
import {
  chosenOrganization,
  type CloudCommand,
  cloudCommand,
  LOCATION,
  locationOf,
  ORG,
  timeOf,
} from "./desk.ts";

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
  cloudCommand(
    "machine list",
    [],
    "Lists the machines of an organization, with their parts.",
    [ORG],
    async (desk, _, { org }) => {
      const all = await new Fleet(desk.store).partsOfOrganization(
        (await chosenOrganization(desk.store, org)).id,
      );
      const seen = (ms: number | null) => ms === null ? "never seen" : `seen ${timeOf(ms)}`;
      desk.print(
        all,
        table(all.map((one) => [one.machineId, one.machineName, one.id, one.name, seen(one.seenMs)])),
      );
    },
  ),
  cloudCommand(
    "machine rename",
    ["ID", "NEW"],
    "Renames a machine.",
    [],
    async ({ change, print }, [id, name]) => {
      await change("machine rename", { kind: "machine", id }, async (sql, nowMs) => {
        const { locationId } = await new Fleet(sql).machine(id);
        await moveMachine(sql, id, { name, locationId }, nowMs);
      });
      print({ id, name }, [`${id} ${name}`]);
    },
  ),
  cloudCommand(
    "machine move",
    ["ID", "LOCATION"],
    "Moves a machine to another location, by its name or id. In another organization (--org) it begins anew.",
    [ORG],
    async (desk, [id, given], { org }) => {
      const { id: locationId, name: location } = await locationOf(desk.store, org, given);
      await desk.change("machine move", { kind: "machine", id }, async (sql, nowMs) => {
        const { name } = await new Fleet(sql).machine(id);
        await moveMachine(sql, id, { name, locationId }, nowMs);
      });
      desk.print({ id, locationId }, [`${id} is in ${location}`]);
    },
  ),
  cloudCommand(
    "machine delete",
    ["ID"],
    "Removes a machine, its parts and their history.",
    [],
    async ({ change, print }, [id]) => {
      await change("machine delete", { kind: "machine", id }, async (sql, nowMs) => {
        await new Fleet(sql).machine(id);
        await new Fleet(sql).deleteMachine(id, nowMs);
      });
      print({ id }, []);
    },
  ),
  cloudCommand(
    "restart",
    ["PART"],
    "Orders a part's program to restart.",
    [],
    async ({ change, print }, [id]) => {
      await change("restart", { kind: "part", id }, async (sql) => {
        await new Fleet(sql).part(id);
        await new Fleet(sql).orderRestart(id);
      });
      print({ id }, []);
    },
  ),
  cloudCommand(
    "fleet",
    [],
    "Lists the machines and the versions that they run.",
    [
      ORG,
      { name: "offline", type: "bool", default: false, help: "Only those that are not online." },
      {
        name: "runs",
        type: "string",
        default: "",
        value: "VERSION",
        help: "Only those that run this svc-server.",
      },
    ],
    async ({ store, clock, print }, _, { org, offline, runs: wanted }) => {
      const { id } = await chosenOrganization(store, org);
      const parts = await new Fleet(store).partsOfOrganization(id);
      const reports = await agentReports(store, parts.map((one) => one.id));
      const presence = new Presence(store, clock, silentLogs(clock).logger("presence"));
      const all = parts.map((part) => ({
        partId: part.id,
        part: part.name,
        machine: part.machineName,
        state: presence.state(part.seenMs ?? undefined),
        seenMs: part.seenMs,
        ...JSON.parse(part.info),
        agent: reports.get(part.id) ?? null,
      }));
      await presence.close();
      const rows = all.filter(({ state, agent, version }) =>
        (!offline || state !== "online") && (wanted === "" || (agent?.serverRunning || version) === wanted)
      );
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

/** The running version, and the one after a restart if it differs. */
function runs(running: string, installed: string): string {
  const next = installed !== "" && installed !== running ? ` (${installed} installed)` : "";
  return `${running || "-"}${next}`;
}
