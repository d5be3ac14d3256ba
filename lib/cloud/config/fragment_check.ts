/** Checks the content of a fragment before it is saved. */

import { SvcError } from "../../base/error.ts";
import type { ConfigContext, FragmentStamps } from "./config_threads.ts";
import { requireNoErrors } from "./config_view.ts";
import type { Fragment } from "./fragments/fragments.ts";
import type { ConfigText } from "./resolution.ts";

/**
 * Checks the content of a fragment as far as it concerns fragments: those that it names exist, none is in itself, and
 * they stay within the limits. Throws `invalid_argument` with every problem.
 */
export async function checkFragment(
  { store, configs }: Pick<ConfigContext, "store" | "configs">,
  { organizationId, visibility }: Pick<Fragment, "organizationId" | "visibility">,
  text: string,
  within?: string,
): Promise<ConfigText & { readonly stamps: FragmentStamps }> {
  const stamps = new Map<string, number>();
  const done = await configs.run(store, organizationId, { kind: "fragment", text, within }, stamps);
  requireNoErrors(done.problems);
  if (visibility !== "private" && done.secret) {
    const instead = 'put {"$variable": {"name": "…"}} in place of each password, key and token';
    throw new SvcError(
      "invalid_argument",
      `the fragment holds secrets, which everybody could read in a public one: ${instead}; nothing is changed`,
    );
  }
  // Its own stamp is compared with the revision that was read.
  if (within) stamps.delete(within);
  return { text: done.text, imports: done.imports, packages: done.packages, stamps };
}
