/**
 * Commands on triggers: what machines wait for, tests, and the notifications with their outcomes.
 *
 * The room owns the commands on what machines have captured, and on what follows from it.
 */

import { SvcError } from "../../../lib/base/error.ts";
import { Parts } from "../../../lib/cloud/tenants/parts.ts";
import {
  Deliveries,
  type Delivery,
  DELIVERY_STATES,
  type DeliveryState,
  shownTarget,
} from "../../../lib/cloud/notifications/deliveries.ts";
import {
  noteEvent,
  type PartTriggers,
  selectTriggers,
  triggersPage,
} from "../../../lib/cloud/triggers/outbox.ts";
import { atLeastOne } from "../../flags.ts";
import { table } from "../../table.ts";
import {
  chosenOrganization,
  type CloudCommand,
  cloudCommand,
  type CloudCommandContext,
  OF_ORG,
  ORG,
  partNamed,
  timeOf,
  unknown,
} from "../command_context.ts";
import { counted } from "../../../lib/base/log/counted.ts";

/** How long a test waits for its outcome, and how often it looks. */
const TEST_MS = 30_000;
const LOOK_MS = 250;

export const TRIGGER_COMMANDS: readonly CloudCommand[] = [
  cloudCommand(
    "trigger list",
    [],
    "Lists the triggers of an organization's machines, as their configurations and fragments have them.",
    [ORG],
    async ({ store, list }, _, { org }) => {
      const { id } = await chosenOrganization(store, org);
      const all = (await everyTrigger(store, id)).flatMap(({ partId, partName, triggers }) =>
        triggers.map(({ name, event, notifications }) => ({
          part: partId,
          partName,
          name,
          event: event.type,
          notifications: notifications.map(({ type, value }) => ({ type, value: shownTarget(value) })),
        }))
      );
      const receivers = (one: typeof all[number]) => one.notifications.map(({ value }) => value).join(" ");
      list("triggers", all, {
        columns: [{ heading: "PART", cutTo: 16 }, { heading: "TRIGGER", cutTo: 16 }, { heading: "EVENT" }, {
          heading: "RECEIVERS",
          cutTo: 24,
          rank: 1,
        }],
        rows: all.map((one) => [one.partName, one.name, one.event, receivers(one)]),
        empty: "no machine has triggers: docs/triggers.md says how to write them into a configuration",
      });
    },
  ),
  cloudCommand(
    "trigger test",
    ["PART", "TRIGGER"],
    "Sends a test to everybody whom a trigger notifies, and prints the outcome; a control plane has to serve.",
    [OF_ORG],
    async (context, [given, name], { org }) => {
      const { store, clock, print } = context;
      const { id: partId } = await partNamed(store, given, org);
      const part = await new Parts(store).get(partId);
      const triggers = await selectTriggers(store, partId);
      const trigger = triggers.find((one) => one.name === name);
      if (!trigger) throw unknown("trigger", name, triggers.map((one) => one.name));
      const sinceMs = clock.nowMs();
      await context.change("trigger test", { kind: "part", id: partId }, (sql, nowMs) => {
        return noteEvent(sql, part, { kind: "test", trigger: name }, nowMs);
      });
      const outcomes = await listOutcomes(context, partId, name, sinceMs, trigger.notifications.length);
      print({ deliveries: outcomes }, table(outcomes.map((one) => [one.state, one.target, one.error])));
      const failed = outcomes.filter(({ state }) => state !== "delivered").length;
      if (failed > 0) {
        throw new SvcError("failed_precondition", `${failed} of ${outcomes.length} did not arrive`);
      }
    },
  ),
  cloudCommand(
    "trigger deliveries",
    [],
    "Lists notifications and their outcomes, newest first: delivered (kept for 7 days), pending, dead (30 days).",
    [
      ORG,
      { name: "part", type: "string", default: "", value: "PART", help: "Only those of this part." },
      {
        name: "state",
        type: "string",
        default: "",
        value: "STATE",
        help: `Only those in this state: ${DELIVERY_STATES.join(", ")}.`,
      },
      { name: "limit", type: "int", default: 50, help: "How many." },
    ],
    async ({ store, list }, _, { org, part, state, limit }) => {
      const { id: organizationId } = await chosenOrganization(store, org);
      const all = await new Deliveries(store).list({
        organizationId,
        partId: part === "" ? undefined : (await partNamed(store, part, org)).id,
        state: state === "" ? undefined : stateOf(state),
        limit: atLeastOne(limit, "--limit"),
      });
      const found = all.map((one) => ({ ...one, target: shownTarget(one.target) }));
      const readable = found.map(({ createdMs, nextMs, endedMs, ...one }) => ({
        ...one,
        created: timeOf(createdMs),
        next: one.state === "pending" ? timeOf(nextMs) : undefined,
        ended: endedMs === null ? undefined : timeOf(endedMs),
      }));
      list("deliveries", readable, {
        columns: [
          { heading: "TIME" },
          { heading: "TRIGGER", cutTo: 16 },
          { heading: "STATE" },
          { heading: "RECEIVER", cutTo: 24 },
          { heading: "REMARK", cutTo: 16, rank: 1 },
          { heading: "ID", cutTo: 13, rank: 2 },
        ],
        rows: found.map((one) => [timeOf(one.createdMs), one.trigger, ...outcomeOf(one), one.id]),
        empty: "no trigger has notified anybody lately",
      });
    },
  ),
  cloudCommand(
    "trigger retry",
    ["ID|all"],
    "Sends a dead notification again, or all of an organization.",
    [ORG],
    async ({ store, change, print }, [id], { org }) => {
      const { id: organizationId } = await chosenOrganization(store, org);
      const selection = { organizationId, id: id === "all" ? undefined : id };
      const on = { kind: "organization", id: organizationId } as const;
      const again = await change(
        "trigger retry",
        on,
        (sql, nowMs) => new Deliveries(sql).retry(selection, nowMs),
      );
      if (again === 0 && id !== "all") {
        throw new SvcError("not_found", `there is no dead notification "${id}" in this organization`);
      }
      print({ again }, [`${counted(again, "notification is", "notifications are")} sent again`]);
    },
  ),
  cloudCommand(
    "trigger secret",
    [],
    "Prints the secret with which an organization's webhooks are signed, or replaces it.",
    [
      ORG,
      {
        name: "rotate",
        type: "bool",
        default: false,
        help: "Make a new one; for a week the old one signs, too.",
      },
      { name: "now", type: "bool", default: false, help: "With --rotate: the old one signs no more." },
    ],
    async ({ clock, store, change, print }, _, { org, rotate, now }) => {
      const { id } = await chosenOrganization(store, org);
      const on = { kind: "organization", id } as const;
      const action = rotate ? "trigger secret --rotate" : "trigger secret";
      const [secret = ""] = await change(action, on, async (sql) => {
        const deliveries = new Deliveries(sql);
        if (rotate) await deliveries.rotateSecret(id, now, clock.nowMs());
        return await deliveries.secrets(id, clock.nowMs());
      });
      print({ secret }, [secret]);
    },
  ),
];

/** By the names of the machines and parts. */
async function everyTrigger(
  store: CloudCommandContext["store"],
  organizationId: string,
): Promise<PartTriggers[]> {
  const all: PartTriggers[] = [];
  for (let after = "", more = true; more;) {
    const { parts, next } = await triggersPage(store, organizationId, after);
    all.push(...parts);
    [after, more] = [next, next !== ""];
  }
  const nameOf = ({ machineName, partName }: PartTriggers) => `${machineName}\n${partName}`;
  return all.sort((a, b) => nameOf(a) < nameOf(b) ? -1 : 1);
}

/** The notifications of a test, when all have ended or have failed once. */
async function listOutcomes(
  { store, clock }: CloudCommandContext,
  partId: string,
  trigger: string,
  sinceMs: number,
  count: number,
): Promise<readonly Delivery[]> {
  const untilMs = clock.monotonicMs() + TEST_MS;
  for (;;) {
    const all = await new Deliveries(store).list({ partId, limit: 1_000 });
    const mine = all.filter((one) => one.trigger === trigger && one.createdMs >= sinceMs);
    const isOver = ({ state, attempts }: Delivery) => state !== "pending" || attempts > 0;
    if (mine.length >= count && mine.every(isOver)) {
      return mine.map((one) => ({ ...one, target: shownTarget(one.target) }));
    }
    if (clock.monotonicMs() > untilMs) {
      const hint = "the test is sent when a control plane serves this database";
      throw new SvcError("unavailable", `no outcome within ${TEST_MS / 1000} s: ${hint}`);
    }
    await clock.sleep(LOOK_MS);
  }
}

function outcomeOf({ state, target, attempts, error, nextMs }: Delivery): string[] {
  const next = state === "pending" && attempts > 0 ? `, next attempt at ${timeOf(nextMs)}` : "";
  return [state, target, `${error}${next}`];
}

function stateOf(found: string): DeliveryState {
  const state = DELIVERY_STATES.find((one) => one === found);
  if (state) return state;
  throw unknown("--state", found, DELIVERY_STATES);
}
