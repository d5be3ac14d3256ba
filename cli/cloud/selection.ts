/**
 * Which parts a command is about: those that it names, or all of an organization, a location or a fragment.
 */

import { FragmentUses } from "../../lib/cloud/config/fragments/fragment_uses.ts";
import { Fragments } from "../../lib/cloud/config/fragments/fragments.ts";
import { MachineTags } from "../../lib/cloud/tenants/machine_tags.ts";
import { type Part, Parts } from "../../lib/cloud/tenants/parts.ts";
import type { Store } from "../../lib/cloud/store/store.ts";
import { type Flag, UsageError, type Values } from "../flags.ts";
import { namedOne } from "../lookup.ts";
import { chosenOrganization, findLocation, ORG, partNamed, unknown } from "./command_context.ts";

export const SELECTION_FLAGS = [
  { ...ORG, help: "Organization; the only one by default. Parts are looked for in it only." },
  { name: "all", type: "bool", default: false, help: "All parts of the organization, in place of PART." },
  { name: "location", type: "string", default: "", value: "NAME|ID", help: "All parts in this location." },
  {
    name: "fragment",
    type: "string",
    default: "",
    value: "FRAGMENT",
    help: "All parts whose configuration names this fragment.",
  },
  { name: "tag", type: "string", default: "", value: "TAG", help: "All parts of machines with this tag." },
] as const satisfies readonly Flag[];

/** The chosen parts, each once. Throws `UsageError` if nothing chooses any. */
export async function selectedParts(
  store: Store,
  words: readonly string[],
  { org, all, location, fragment, tag }: Values<typeof SELECTION_FLAGS>,
): Promise<readonly Part[]> {
  const ways = [words.length > 0, all, location !== "", fragment !== "", tag !== ""].filter(Boolean).length;
  const flags = "--all, --location, --fragment or --tag";
  if (ways === 0) throw new UsageError(`found no PART, wanted one or more, ${flags}`);
  if (ways > 1) throw new UsageError(`wanted either PART, ${flags}`);
  if (words.length > 0) {
    const named = await Promise.all(words.map((word) => partNamed(store, word, org)));
    return [...new Map(named.map((one) => [one.id, one])).values()];
  }
  if (all) return await new Parts(store).ofOrganization((await chosenOrganization(store, org)).id);
  if (location !== "") {
    return await new Parts(store).inLocations([(await findLocation(store, org, location)).id]);
  }
  if (tag !== "") return await taggedParts(store, (await chosenOrganization(store, org)).id, tag);
  const { id } = await fragmentNamed(store, org, fragment);
  const uses = new Set((await new FragmentUses(store).parts(id)).map(({ partId }) => partId));
  return (await new Parts(store).all()).filter((one) => uses.has(one.id));
}

/** The parts of an organization's machines with a tag. Throws `not_found` with what there is if no machine has it. */
export async function taggedParts(store: Store, organizationId: string, tag: string): Promise<Part[]> {
  const all = await new Parts(store).ofOrganization(organizationId);
  const tags = await new MachineTags(store).ofMachines([...new Set(all.map(({ machineId }) => machineId))]);
  const found = all.filter(({ machineId }) => tags.get(machineId)?.includes(tag));
  if (found.length > 0) return found;
  throw unknown("--tag", tag, [...new Set(all.flatMap(({ machineId }) => tags.get(machineId) ?? []))].sort());
}

/** A fragment of an organization by its id, a beginning of it, or its name. */
export async function fragmentNamed(store: Store, org: string, wanted: string) {
  const { id } = await chosenOrganization(store, org);
  return namedOne("fragment", wanted, await new Fragments(store).list(id));
}
