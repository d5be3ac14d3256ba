/**
 * The plan of a rollout: its steps, how long a machine has to be healthy, how many may fail, and when machines may be
 * changed.
 */

import { SvcError } from "../../base/error.ts";
import { isObject, type Json } from "../../base/schema/schema.ts";
import { OPERATORS, type TriggerEvals } from "../triggers/settings.ts";

export interface RolloutReading {
  readonly component: string;
  readonly evals: TriggerEvals;
}

export interface RolloutPlan {
  /** `10%`, `tag:canary`, `location:ID`; the rest is the last step. */
  readonly steps: readonly string[];
  readonly soakMs: number;
  readonly takeMs: number;
  readonly lateMs: number;
  /** 0 for a whole step. */
  readonly atOnce: number;
  readonly unhealthyMax: number;
  readonly errorsMax: number;
  /** Empty for always. */
  readonly windows: readonly string[];
  readonly readings: readonly RolloutReading[];
}

/** A plan from outside; a time of 0 selects the default. */
export interface GivenPlan {
  readonly steps: readonly string[];
  readonly soakSeconds: number;
  readonly takeSeconds: number;
  readonly lateSeconds: number;
  readonly atOnce: number;
  readonly unhealthyMax: number;
  readonly errorsMax: number;
  readonly windows: readonly string[];
  readonly readings: readonly {
    readonly component: string;
    readonly operator: string;
    readonly value: string;
  }[];
}

/** A machine that a plan divides among its steps. */
export interface PlannedPart {
  readonly id: string;
  /** The location of its machine, and the locations around it. */
  readonly locationIds: readonly string[];
  readonly tags: readonly string[];
}

export const PLAN_DEFAULTS = { soakSeconds: 300, takeSeconds: 3600, lateSeconds: 7 * 24 * 3600 } as const;
/** The default steps of a rollout. */
export const STEPS_DEFAULT = ["10%", "50%"] as const;
const STEPS_MAX = 20;
const WINDOWS_MAX = 20;
const READINGS_MAX = 5;
const SECONDS_MAX = 90 * 24 * 3600;
const TEXT_CHARS_MAX = 200;
const DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const WINDOW = /^(?:([a-z]{3})(?:-([a-z]{3}))? )?(\d\d):(\d\d)-(\d\d):(\d\d)$/;
const MINUTE_MS = 60_000;
const DAY_MINUTES = 24 * 60;
const WANTED_STEP = '"10%", "tag:NAME" or "location:ID"';

/** Throws `invalid_argument`, which names the field. */
export function checkedPlan(given: GivenPlan): RolloutPlan {
  const steps = given.steps.length === 0 ? [...STEPS_DEFAULT] : given.steps;
  requireAtMost("plan.steps", steps.length, STEPS_MAX);
  requireAtMost("plan.windows", given.windows.length, WINDOWS_MAX);
  requireAtMost("plan.readings", given.readings.length, READINGS_MAX);
  let percent = 0;
  for (const [index, step] of steps.entries()) {
    const at = `plan.steps[${index}]`;
    const own = percentOf(step);
    if (own === undefined && !/^(tag|location):./.test(step) || step.length > TEXT_CHARS_MAX) {
      throw invalid(at, step, WANTED_STEP);
    }
    if (own === undefined) continue;
    if (own <= percent || own > 100) {
      throw invalid(at, step, `a share above ${percent}% and up to 100%`);
    }
    percent = own;
  }
  for (const [index, window] of given.windows.entries()) {
    if (parsedWindow(window)) continue;
    throw invalid(`plan.windows[${index}]`, window, '"22:00-05:00" or "mon-fri 22:00-05:00" (UTC)');
  }
  const ms = (name: keyof typeof PLAN_DEFAULTS) => {
    requireAtMost(`plan.${name}`, given[name], SECONDS_MAX);
    return (given[name] || PLAN_DEFAULTS[name]) * 1000;
  };
  const { atOnce, unhealthyMax, errorsMax, windows } = given;
  return {
    ...{ steps, windows, atOnce, unhealthyMax, errorsMax },
    soakMs: ms("soakSeconds"),
    takeMs: ms("takeSeconds"),
    lateMs: ms("lateSeconds"),
    readings: given.readings.map(checkedReading),
  };
}

/**
 * The step of each part, counted from 0, and their order. Percentages refer to all parts, in an order that depends on
 * `seed`.
 */
export function dividedParts(
  plan: Pick<RolloutPlan, "steps">,
  parts: readonly PlannedPart[],
  seed: string,
): { readonly id: string; readonly step: number }[] {
  const order = new Map(parts.map(({ id }) => [id, hashOf(`${seed} ${id}`)]));
  const left = new Set(
    parts.toSorted((a, b) => order.get(a.id)! - order.get(b.id)! || (a.id < b.id ? -1 : 1)),
  );
  const divided: { id: string; step: number }[] = [];
  for (const [step, name] of plan.steps.entries()) {
    const percent = percentOf(name);
    const wanted = percent === undefined ? undefined : Math.ceil(parts.length * percent / 100);
    for (const part of left) {
      if (wanted !== undefined ? divided.length >= wanted : !isIn(part, name)) continue;
      left.delete(part);
      divided.push({ id: part.id, step });
    }
  }
  return [...divided, ...[...left].map(({ id }) => ({ id, step: plan.steps.length }))];
}

/** The name of a step for people; the step after all named ones has the rest. */
export function stepName({ steps }: Pick<RolloutPlan, "steps">, step: number): string {
  return steps[step] ?? "the rest";
}

/** Whether machines may be changed now. */
export function isWithin(windows: readonly string[], nowMs: number): boolean {
  if (windows.length === 0) return true;
  const minutes = Math.floor(nowMs / MINUTE_MS);
  const [day, minute] = [new Date(nowMs).getUTCDay(), minutes % DAY_MINUTES];
  return windows.some((text) => {
    const window = parsedWindow(text);
    if (!window) return false;
    const { days, from, until } = window;
    if (from < until) return days[day] && minute >= from && minute < until;
    // A window over midnight belongs to the day on which it starts.
    return days[day] && minute >= from || days[(day + 6) % 7] && minute < until;
  });
}

function parsedWindow(text: string) {
  const found = WINDOW.exec(text);
  if (!found) return undefined;
  const [, first, last, ...numbers] = found;
  const [h1 = 0, m1 = 0, h2 = 0, m2 = 0] = numbers.map(Number);
  const [from, until] = [h1 * 60 + m1, h2 * 60 + m2];
  if (m1 > 59 || m2 > 59 || from >= DAY_MINUTES || until > DAY_MINUTES || from === until) return undefined;
  const [begin, end] = [DAYS.indexOf(first ?? "sun"), DAYS.indexOf(last ?? first ?? "sat")];
  if (begin < 0 || end < 0) return undefined;
  const days = DAYS.map((_, day) => begin <= end ? day >= begin && day <= end : day >= begin || day <= end);
  return { days, from, until };
}

function percentOf(step: string): number | undefined {
  return /^\d{1,3}%$/.test(step) ? Number(step.slice(0, -1)) : undefined;
}

function isIn({ tags, locationIds }: PlannedPart, step: string): boolean {
  const name = step.slice(step.indexOf(":") + 1);
  return step.startsWith("tag:") ? tags.includes(name) : locationIds.includes(name);
}

function checkedReading(
  { component, operator, value }: GivenPlan["readings"][number],
  index: number,
): RolloutReading {
  const at = `plan.readings[${index}]`;
  const known = OPERATORS.find((one) => one === operator && one !== "regex");
  if (component === "" || component.length > TEXT_CHARS_MAX) throw invalid(at, component, "a component");
  if (!known) throw invalid(at, operator, OPERATORS.filter((one) => one !== "regex").join(", "));
  let parsed: Json = null;
  try {
    parsed = value.length > TEXT_CHARS_MAX ? null : JSON.parse(value);
  } catch {
    // Falls through to the error for any other value.
  }
  if (!isObject(parsed) || Object.keys(parsed).length !== 1) {
    throw invalid(at, value, 'JSON such as {"cpu": 50}');
  }
  return { component, evals: [{ operator: known, value: parsed }] as TriggerEvals };
}

function requireAtMost(name: string, found: number, most: number): void {
  if (found > most) throw new SvcError("invalid_argument", `${name}: found ${found}, wanted at most ${most}`);
}

function invalid(at: string, found: string, wanted: string): SvcError {
  return new SvcError(
    "invalid_argument",
    `${at}: found ${JSON.stringify(found.slice(0, TEXT_CHARS_MAX))}, wanted ${wanted}`,
  );
}

/** FNV-1a: spreads the parts over the shares, differently in each rollout. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash >>> 0;
}
