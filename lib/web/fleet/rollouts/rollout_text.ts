/** Rollouts as people read and write them. Pure. */

import type { ShownReading, ShownRollout, ShownRolloutPart, ShownStep } from "./rollout_calls.ts";

export type Tone = "good" | "warn" | "bad" | "";

const STATE_TONES: { readonly [state: string]: Tone } = {
  running: "good",
  paused: "warn",
  halted: "bad",
  completed: "good",
};
const PART_WORDS: { readonly [state: string]: string } = {
  applied: "changing",
  taken: "watched",
  reverting: "going back",
  kept: "not taken back",
};
const SECONDS = { s: 1, m: 60, h: 3600, d: 24 * 3600 } as const;
const READING = /^(.*\S)\s+(\w+)\s+(\{.*\})$/;

export function stateTone(state: string): Tone {
  return STATE_TONES[state] ?? "";
}

/** A machine's state in words: the unhealthy ones first of all. */
export function partState(
  { state, unhealthy }: ShownRolloutPart,
): { readonly text: string; readonly tone: Tone } {
  const text = PART_WORDS[state] ?? state;
  if (unhealthy) return { text: `unhealthy, ${text}`, tone: "bad" };
  return { text, tone: ({ healthy: "good", applied: "warn", taken: "warn" } as const)[state] ?? "" };
}

/** `fragment arm 3` */
export function changeText({ change }: ShownRollout, fragments: ReadonlyMap<string, string>): string {
  if (!change) return "";
  return [change.kind, fragments.get(change.id) ?? change.id, change.version].filter(Boolean).join(" ");
}

export function isOver({ state }: ShownRollout): boolean {
  return state === "completed" || state === "aborted";
}

export function sumOf(
  steps: readonly ShownStep[],
  kind: "machines" | "healthy" | "unhealthy" | "skipped",
): number {
  return steps.reduce((sum, one) => sum + one[kind], 0);
}

/** The lines of a text field that have something in them. */
export function filledLines(text: string): string[] {
  return text.split("\n").map((line) => line.trim()).filter((line) => line !== "");
}

/** `90s`, `10m`, `2h`, `7d` in seconds. Throws for anything else. */
export function durationSeconds(what: string, text: string): number {
  const found = /^(\d{1,9})\s*([smhd])$/.exec(text.trim());
  const seconds = found ? Number(found[1]) * SECONDS[found[2] as keyof typeof SECONDS] : 0;
  if (seconds >= 1) return seconds;
  throw new Error(`${what}: found "${text}", wanted a time such as 90s, 10m, 2h or 7d`);
}

/** 600 as `10m`. */
export function durationText(seconds: number): string {
  const [unit, size] = Object.entries(SECONDS).toReversed().find(([, one]) => seconds % one === 0) ??
    ["s", 1];
  return `${seconds / size}${unit}`;
}

/** A whole number from 0. Throws for anything else. */
export function countIn(what: string, text: string): number {
  if (/^\d{1,9}$/.test(text.trim())) return Number(text);
  throw new Error(`${what}: found "${text}", wanted a whole number from 0`);
}

/** `load lt {"cpu": 50}`. Throws for anything else. */
export function readingIn(line: string): ShownReading {
  const found = READING.exec(line);
  if (!found) throw new Error(`Readings: found "${line}", wanted SENSOR lt {"cpu": 50}`);
  const [, component = "", operator = "", value = ""] = found;
  return { component, operator, value };
}

/** A step with the name of a location in it, as a plan has it: with its id. */
export function stepIn(
  line: string,
  locations: readonly { readonly id: string; readonly name: string }[],
): string {
  const name = /^location:\s*(.+)$/.exec(line)?.[1];
  const found = locations.find((one) => one.name === name) ?? locations.find(({ id }) => id === name);
  return found ? `location:${found.id}` : line;
}

/** The name of a step with the name of its location. */
export function stepText(
  name: string,
  locations: readonly { readonly id: string; readonly name: string }[],
): string {
  const id = /^location:(.+)$/.exec(name)?.[1];
  const found = locations.find((one) => one.id === id);
  return found ? `location:${found.name}` : name;
}
