/**
 * Contracts: promises that every model of an API keeps, whether used directly or through a client.
 */

import type { Api } from "../../lib/resource/registry.ts";
import type { Resource } from "../../lib/resource/resource.ts";

export interface Contract<R extends Resource> {
  readonly api: Api<R>;
  /** Each case gets the same running resource and leaves it usable for the next. */
  readonly cases: { readonly [promise: string]: Check<R> | CapabilityCase<R> };
}

type Check<R> = (resource: R) => Promise<void>;

/** A promise that only some models of the API can keep. For the others it is ignored, or they refuse. */
export interface CapabilityCase<R extends Resource> {
  /** The capability, as `capabilities.json` names it. */
  readonly capability: string;
  has(resource: R): Promise<boolean>;
  readonly check: Check<R>;
  /** The promise of a model without the capability. */
  readonly otherwise?: Check<R>;
}

/** Runs each case that the resource can fulfil as a step; `subject` stands before its promise. */
export async function keepContract<R extends Resource>(
  { cases }: Contract<R>,
  resource: R,
  t: Deno.TestContext,
  subject = "",
): Promise<void> {
  for (const [name, one] of Object.entries(cases)) {
    const promise = subject + name;
    if (typeof one === "function") await t.step(promise, () => one(resource));
    else if (await one.has(resource)) await t.step(promise, () => one.check(resource));
    else if (one.otherwise) {
      await t.step(`${promise}; refused: no ${one.capability}`, () => one.otherwise!(resource));
    } else {
      await t.step({ name: `${promise} (not run: no ${one.capability})`, ignore: true, fn: () => {} });
    }
  }
}
