/**
 * Commands on rollouts: a change goes to a share of machines first, and on or back by their health.
 */

import { SvcError } from "../../../lib/base/error.ts";
import { Audit } from "../../../lib/cloud/access/audit.ts";
import { PROGRAMS } from "../../../lib/cloud/packages/releases.ts";
import { abortRollout, pauseRollout, resumeRollout } from "../../../lib/cloud/rollouts/orders.ts";
import { type GivenPlan, PLAN_DEFAULTS, STEPS_DEFAULT } from "../../../lib/cloud/rollouts/plan.ts";
import { rolloutSteps } from "../../../lib/cloud/services/fleet/rollout_service.ts";
import { type Rollout, type RolloutPart, Rollouts } from "../../../lib/cloud/rollouts/rollouts.ts";
import { type RolloutOrder, startRollout } from "../../../lib/cloud/rollouts/starting.ts";
import { type Flag, UsageError, type Values } from "../../flags.ts";
import { namedOne } from "../../lookup.ts";
import { facts, fittedTable, isoTimes, shownMs } from "../../table.ts";
import {
  chosenOrganization,
  type CloudCommand,
  cloudCommand,
  type CloudCommandContext,
  findLocation,
  ORG,
  partNamed,
  recordNames,
  unknown,
} from "../command_context.ts";
import { fragmentNamed } from "../selection.ts";
import { objectIn } from "./documents.ts";
import { counted } from "../../../lib/base/log/counted.ts";

const START_FLAGS = [
  ORG,
  { name: "fragment", type: "string", default: "", value: "FRAGMENT", help: "Rolls out this fragment." },
  {
    name: "module",
    type: "string",
    default: "",
    value: "NAMESPACE:NAME",
    help: "Rolls out a version of this module.",
  },
  {
    name: "program",
    type: "string",
    default: "",
    value: "PROGRAM",
    help: `Rolls out a version of ${PROGRAMS.join(" or ")}.`,
  },
  {
    name: "to",
    type: "string",
    default: "",
    value: "VERSION",
    help: "The version to go to: of a fragment its revision or tag.",
  },
  {
    name: "config",
    type: "string",
    default: "",
    value: "FILE",
    help: "With --fragment, in place of --to: the file (JSON) becomes its next revision, which nobody gets " +
      "before its turn.",
  },
  { name: "name", type: "string", default: "", value: "NAME", help: "A name; left out, the change." },
  { name: "tag", type: "list", default: [], value: "TAG", help: "Machines with this tag; repeatable." },
  {
    name: "location",
    type: "list",
    default: [],
    value: "NAME|ID",
    help: "Machines in this location; repeatable. Without PART, --tag and --location, every machine.",
  },
  {
    name: "step",
    type: "list",
    default: STEPS_DEFAULT,
    value: "STEP",
    help: "Which machines come next: 10%, tag:NAME or location:NAME; repeatable. The rest is the last step.",
  },
  {
    name: "soak",
    type: "duration",
    default: PLAN_DEFAULTS.soakSeconds * 1000,
    help: "How long a machine has to be healthy with the change.",
  },
  {
    name: "take",
    type: "duration",
    default: PLAN_DEFAULTS.takeSeconds * 1000,
    help: "How long a machine may take until it runs the change, outside of its own maintenance window.",
  },
  {
    name: "late",
    type: "duration",
    default: PLAN_DEFAULTS.lateSeconds * 1000,
    help: "How long the end waits for machines that are offline.",
  },
  {
    name: "at-once",
    type: "int",
    default: 0,
    help: "Machines that are changed at once; 0 for a whole step.",
  },
  {
    name: "unhealthy-max",
    type: "int",
    default: 0,
    help: "Machines that may turn unhealthy before the rollout halts.",
  },
  {
    name: "errors-max",
    type: "int",
    default: 0,
    help: "Lines of a machine's log at level error beyond as many as before.",
  },
  {
    name: "window",
    type: "list",
    default: [],
    value: "TIMES",
    help: 'When machines may be changed, in UTC: "mon-fri 22:00-05:00"; repeatable.',
  },
  {
    name: "reading",
    type: "list",
    default: [],
    value: "CONDITION",
    help: 'What a healthy machine captures: "SENSOR lt {\\"cpu\\": 50}"; repeatable.',
  },
] as const satisfies readonly Flag[];

type StartFlags = Values<typeof START_FLAGS>;

/** Machines that `rollout status` lists without --parts: those that were unhealthy. */
const UNHEALTHY_SHOWN_MAX = 20;
const PARTS_SHOWN_MAX = 10_000;

export const ROLLOUT_COMMANDS: readonly CloudCommand[] = [
  cloudCommand(
    "rollout start",
    ["[PART...]"],
    "Starts a rollout: a change goes to a share of machines first, waits for their health, and goes on by itself.",
    START_FLAGS,
    start,
  ),
  cloudCommand(
    "rollout status",
    ["[ROLLOUT]"],
    "Shows a rollout, step by step; the newest one by default.",
    [
      ORG,
      { name: "parts", type: "bool", default: false, help: "List every machine, not only unhealthy ones." },
    ],
    showStatus,
  ),
  cloudCommand("rollout list", [], "Lists rollouts, newest first.", [ORG], async (context, _, { org }) => {
    const { store, list } = context;
    const all = await new Rollouts(store).list((await chosenOrganization(store, org)).id);
    const shown = await Promise.all(all.map((one) => readRolloutView(context, one)));
    list("rollouts", shown, {
      columns: [
        { heading: "ROLLOUT", cutTo: 16 },
        { heading: "STATE", isState: true },
        { heading: "STEP", cutTo: 8 },
        { heading: "HEALTHY" },
        { heading: "UNHEALTHY" },
        { heading: "STARTED (UTC)", rank: 1 },
        { heading: "REMARK", cutTo: 16, rank: 2 },
        { heading: "ID", cutTo: 9 },
      ],
      rows: shown.map(({ steps, ...one }) => [
        one.name,
        one.state,
        steps[one.step]?.name ?? "",
        `${sumOf(steps, "healthy")} of ${sumOf(steps, "machines")}`,
        String(sumOf(steps, "unhealthy")),
        shownMs(one.createdMs),
        one.reason,
        one.id,
      ]),
      empty: "there is no rollout yet: svc-cloud rollout start begins one",
    });
  }),
  orderCommand("pause", "Changes no further machine until it is resumed.", [], pauseRollout),
  orderCommand(
    "resume",
    "Goes on with a rollout that is paused or halted; what has turned unhealthy so far does not halt it again.",
    [],
    resumeRollout,
  ),
  orderCommand(
    "abort",
    "Ends a rollout.",
    [{
      name: "revert",
      type: "bool",
      default: false,
      help: "Take the change back on every machine that has it.",
    }],
    (audit, actor, id, flags) => abortRollout(audit, actor, id, flags.revert === true),
  ),
];

async function start(
  context: CloudCommandContext,
  words: readonly string[],
  flags: StartFlags,
): Promise<void> {
  const { store, configs, clock, who, print } = context;
  const { id: organizationId } = await chosenOrganization(store, flags.org);
  const change = await resolveChange(context, flags);
  const inLocation = async (name: string) => (await findLocation(store, flags.org, name)).id;
  const order: RolloutOrder = {
    organizationId,
    name: flags.name || change.title,
    change: { kind: change.kind, id: change.id, version: flags.to },
    plan: planOf(flags, await Promise.all(flags.step.map((step) => parseStep(step, inLocation)))),
    locationIds: await Promise.all(flags.location.map(inLocation)),
    tags: flags.tag,
    partIds: await Promise.all(words.map(async (word) => (await partNamed(store, word, flags.org)).id)),
    fragmentConfig: flags.config === ""
      ? ""
      : JSON.stringify(await objectIn(context, "rollout start", flags.config)),
  };
  const id = await startRollout({ store, configs, audit: new Audit(store, clock), clock }, order, who);
  const view = await readRolloutView(context, await new Rollouts(store).get(id));
  const machines = sumOf(view.steps, "machines");
  print(isoTimes(view), [
    `rollout "${view.name}" (${id}) begins: ${counted(machines, "machine")} in ` +
    `${counted(view.steps.length, "step")}; svc-cloud rollout status ${id.slice(0, 8)} shows how far it is`,
  ]);
}

/** The kind and the subject of the change, and words for people. */
async function resolveChange(
  { store }: CloudCommandContext,
  { org, fragment, module, program, to: version, config }: StartFlags,
): Promise<{ readonly kind: string; readonly id: string; readonly title: string }> {
  const given = [fragment, module, program].filter((one) => one !== "");
  if (given.length !== 1) {
    throw new UsageError(`found ${given.length} changes, wanted one of --fragment, --module and --program`);
  }
  if (config !== "" && fragment === "") throw new UsageError("--config: wanted --fragment with it");
  if (config !== "" && version !== "") throw new UsageError("wanted either --to or --config");
  if (config === "" && version === "") {
    throw new UsageError(`found no version, wanted --to${fragment ? " or --config" : ""}`);
  }
  if (fragment !== "") {
    const { id, name } = await fragmentNamed(store, org, fragment);
    return { kind: "fragment", id, title: version === "" ? "" : `fragment ${name} ${version}` };
  }
  if (module !== "") return { kind: "module", id: module, title: "" };
  if (!PROGRAMS.some((one) => one === program)) throw unknown("--program", program, PROGRAMS);
  return { kind: program, id: "", title: "" };
}

function planOf(flags: StartFlags, steps: readonly string[]): GivenPlan {
  const atLeast = (name: string, value: number) => {
    if (value >= 0) return value;
    throw new UsageError(`--${name}: found ${value}, wanted 0 or more`);
  };
  return {
    steps,
    soakSeconds: secondsOf("soak", flags.soakMs),
    takeSeconds: secondsOf("take", flags.takeMs),
    lateSeconds: secondsOf("late", flags.lateMs),
    atOnce: atLeast("at-once", flags.atOnce),
    unhealthyMax: atLeast("unhealthy-max", flags.unhealthyMax),
    errorsMax: atLeast("errors-max", flags.errorsMax),
    windows: flags.window,
    readings: flags.reading.map(readingOf),
  };
}

function secondsOf(name: string, ms: number): number {
  if (ms >= 1000) return Math.round(ms / 1000);
  throw new UsageError(`--${name}: found ${ms} ms, wanted 1s or more`);
}

/** `SENSOR lt {"cpu": 50}` */
function readingOf(text: string): GivenPlan["readings"][number] {
  const [, component, operator, value] = /^(.*\S)\s+(\w+)\s+(\{.*\})$/s.exec(text.trim()) ?? [];
  if (component && operator && value) return { component, operator, value };
  throw new UsageError(`--reading: found "${text}", wanted SENSOR lt {"cpu": 50}`);
}

/** Locations have names at the command line and ids in a plan. */
async function parseStep(step: string, inLocation: (name: string) => Promise<string>): Promise<string> {
  const [kind, name] = [step.split(":", 1)[0], step.slice(step.indexOf(":") + 1)];
  return kind === "location" && name !== "" && step.includes(":")
    ? `location:${await inLocation(name)}`
    : step;
}

async function showStatus(
  context: CloudCommandContext,
  [wanted]: readonly [rollout?: string],
  { org, parts: isWhole }: { readonly org: string; readonly parts: boolean },
): Promise<void> {
  const { store, host, print } = context;
  const rollouts = new Rollouts(store);
  const all = await rollouts.list((await chosenOrganization(store, org)).id);
  const [newest] = all;
  if (!newest) throw new SvcError("not_found", "there is no rollout yet: svc-cloud rollout start begins one");

  const rollout = wanted === undefined ? newest : namedOne("rollout", wanted, all);
  const view = await readRolloutView(context, rollout);
  const limit = isWhole ? PARTS_SHOWN_MAX : UNHEALTHY_SHOWN_MAX;
  const found = await rollouts.parts(rollout.id, { unhealthy: !isWhole, limit });
  // What has left the organization is no longer its business.
  const parts = found.filter(({ organizationId }) => organizationId === rollout.organizationId).map(partView);
  print(isoTimes({ ...view, parts }), [
    ...facts([
      ["name", view.name],
      ["id", view.id],
      ["change", changeText(view, await recordNames(store))],
      ["state", view.state],
      ["reason", view.reason],
      ["started", `${shownMs(view.createdMs)} UTC by ${view.who}`],
      ["ended", view.endedMs === null ? "" : `${shownMs(view.endedMs)} UTC`],
    ]),
    "",
    ...stepTable(view, host.columns()),
    ...parts.length > 0 ? ["", ...partTable(view, parts, host.columns())] : [],
  ]);
}

/** As in `fragment arm 4`; a fragment by its name. */
function changeText(
  { change: { kind, id, version } }: RolloutView,
  names: ReadonlyMap<string, string>,
): string {
  return [kind, names.get(id) ?? id, version].filter(Boolean).join(" ");
}

type RolloutView = Awaited<ReturnType<typeof readRolloutView>>;

async function readRolloutView({ store }: CloudCommandContext, rollout: Rollout) {
  const { id, name, change, plan, state, step, reason, who, createdMs, endedMs } = rollout;
  const counts = (await new Rollouts(store).counts([id])).get(id) ?? [];
  const steps = rolloutSteps(rollout, counts);
  return { id, name, change, plan, state, step, reason, who, createdMs, endedMs, steps };
}

function sumOf(steps: RolloutView["steps"], kind: "machines" | "healthy" | "unhealthy"): number {
  return steps.reduce((sum, one) => sum + one[kind], 0);
}

function stepTable({ steps, step, state }: RolloutView, columns: number | undefined): string[] {
  const isOver = state === "completed" || state === "aborted";
  return fittedTable(
    [
      { heading: "STEP", cutTo: 16 },
      { heading: "MACHINES" },
      { heading: "WAITING" },
      { heading: "CHANGING" },
      { heading: "HEALTHY" },
      { heading: "UNHEALTHY" },
      { heading: "SKIPPED", rank: 1 },
    ],
    steps.map((one, at) => [
      at === step && !isOver ? `> ${one.name}` : one.name,
      ...[one.machines, one.waiting, one.changing, one.healthy, one.unhealthy, one.skipped].map(String),
    ]),
    { columns },
  );
}

function partView({ partId, partName, machineId, machineName, step, state, unhealthy, reason }: RolloutPart) {
  return { partId, partName, machineId, machineName, step, state, unhealthy, reason };
}

function partTable(
  { steps }: RolloutView,
  parts: readonly ReturnType<typeof partView>[],
  columns: number | undefined,
): string[] {
  return fittedTable(
    [
      { heading: "PART", cutTo: 16 },
      { heading: "STEP", cutTo: 8, rank: 1 },
      { heading: "STATE" },
      { heading: "UNHEALTHY", rank: 2 },
      { heading: "REMARK", cutTo: 24 },
    ],
    parts.map((one) => [
      one.partName,
      steps[one.step]?.name ?? "",
      one.state,
      one.unhealthy ? "yes" : "",
      one.reason,
    ]),
    { columns },
  );
}

/** A command that orders something about one rollout. */
function orderCommand(
  word: string,
  summary: string,
  flags: readonly Flag[],
  order: (
    audit: Audit,
    actor: { readonly who: string; readonly action: string },
    id: string,
    flags: Readonly<Record<string, unknown>>,
  ) => Promise<void>,
): CloudCommand {
  const name = `rollout ${word}`;
  return cloudCommand(name, ["ROLLOUT"], summary, [ORG, ...flags], async (context, [wanted], given) => {
    const { store, clock, who, print } = context;
    const values = given as Readonly<Record<string, unknown>>;
    const { id: organizationId } = await chosenOrganization(store, String(values.org));
    const { id } = namedOne("rollout", wanted, await new Rollouts(store).list(organizationId));
    await order(new Audit(store, clock), { who, action: name }, id, values);
    const view = await readRolloutView(context, await new Rollouts(store).get(id));
    print(isoTimes(view), [`rollout "${view.name}" is ${view.state}`]);
  });
}
