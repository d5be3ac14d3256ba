/**
 * Contracts: promises that every model of an API keeps, whether used directly or through a client.
 */

import type { Api } from "../../lib/resource/registry.ts";
import type { Resource } from "../../lib/resource/resource.ts";

export interface Contract<R extends Resource> {
  readonly api: Api<R>;
  /** Each case gets the same running resource and leaves it usable for the next. */
  readonly cases: { readonly [promise: string]: (resource: R) => Promise<void> };
}
