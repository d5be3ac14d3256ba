/**
 * The budget of one resolution: limits the work that a configuration and its fragments may cause, and counts it
 * while it is done.
 */

import { SvcError } from "../../base/error.ts";
import { isObject, type Json, type JsonObject } from "../../base/schema/schema.ts";
import { type Limits, overLimit } from "../access/limits.ts";

/** The limits of one resolution. */
export type ResolutionLimits = Pick<
  Limits,
  "fragmentsPerConfiguration" | "valuesPerConfiguration" | "lettersPerConfiguration"
>;

/** Limit of objects and lists inside each other. */
export const LEVELS_MAX = 100;
const NAME_SHOWN = 100;

/** A text for messages. */
export function clipped(text: string): string {
  return text.length > NAME_SHOWN ? `${text.slice(0, NAME_SHOWN)}…` : text;
}

/** Throws `resource_exhausted` if a configuration includes more fragments than allowed. */
export function requireFragments(limits: ResolutionLimits, count: number): void {
  if (count <= limits.fragmentsPerConfiguration) return;
  throw overLimit(
    limits,
    "fragmentsPerConfiguration",
    `found more than ${limits.fragmentsPerConfiguration} in one configuration`,
  );
}

/** The work that one resolution may cause. */
export class ResolutionBudget {
  #fragments = 0;
  #values = 0;
  #letters = 0;

  constructor(private readonly limits: ResolutionLimits) {}

  include(): void {
    requireFragments(this.limits, ++this.#fragments);
  }

  /** Counts one value with its text. */
  spend(letters: number): void {
    this.#values++;
    this.#letters += letters;
    const { limits } = this;
    if (this.#values > limits.valuesPerConfiguration) {
      const found = `found more than ${limits.valuesPerConfiguration}`;
      throw overLimit(limits, "valuesPerConfiguration", `${found} with its fragments`);
    }
    if (this.#letters > limits.lettersPerConfiguration) {
      const found = `found more than ${limits.lettersPerConfiguration}`;
      throw overLimit(limits, "lettersPerConfiguration", `${found} with its fragments`);
    }
  }

  /** Counts a whole document. */
  count(value: Json, levels = 0): void {
    requireLevels(levels);
    this.spend(typeof value === "string" ? value.length : 0);
    if (Array.isArray(value)) {
      for (const one of value) this.count(one, levels + 1);
    } else if (isObject(value)) {
      for (const [key, one] of Object.entries(value as JsonObject)) {
        this.spend(key.length);
        this.count(one, levels + 1);
      }
    }
  }

  /** Copies a document; `change` may give another value for an object. */
  copy(value: Json, change: (holder: JsonObject) => Json | undefined = () => undefined, levels = 0): Json {
    requireLevels(levels);
    this.spend(typeof value === "string" ? value.length : 0);
    if (Array.isArray(value)) return value.map((one) => this.copy(one, change, levels + 1));
    if (!isObject(value)) return value;
    const changed = change(value as JsonObject);
    if (changed !== undefined) return this.copy(changed, undefined, levels);
    const made: JsonObject = {};
    for (const [key, one] of Object.entries(value as JsonObject)) {
      // As a setting it has no meaning, and assigning it would change the object's prototype.
      if (key === "__proto__") continue;
      this.spend(key.length);
      made[key] = this.copy(one, change, levels + 1);
    }
    return made;
  }
}

function requireLevels(levels: number): void {
  if (levels <= LEVELS_MAX) return;
  throw new SvcError(
    "resource_exhausted",
    `the configuration has more than ${LEVELS_MAX} objects and lists inside each other, wanted at most ${LEVELS_MAX}`,
  );
}
