/**
 * The address behind `#`: `#/` is the list, `#/machine/ID/TAB/PART` a machine, `#/rollouts/ID` a rollout, `#/registry/ID` an item of the registry,
 * `#/data/TAB/ID` a dataset, a training job, a map or a mapping session, `#/fragments/ID/TAB/PART` a fragment, and `#/compare/PART/PART` two parts. `#/provider/QUERY` is the answer of the identity provider.
 */

import { getContext, setContext } from "svelte";
import { followAddress } from "../shared/unsaved.svelte.ts";

export class FleetRoute {
  #hash = $state(location.hash);

  constructor() {
    followAddress((hash) => this.#hash = hash);
  }

  get view(): string {
    return this.#parts[0] ?? "";
  }

  /** Of the machine, the rollout or the item; the link of an invitation; which data. */
  get id(): string {
    return this.#parts[1] ?? "";
  }

  /** Of a machine; the dataset, the job, the map or the mapping session. */
  get tab(): string {
    return this.#parts[2] ?? "";
  }

  get partId(): string {
    return this.#parts[3] ?? "";
  }

  get #parts(): string[] {
    return this.#hash.replace(/^#\/?/, "").split("/").map(decoded);
  }
}

const CONTEXT = Symbol("the address");

export function provideRoute(route: FleetRoute): FleetRoute {
  return setContext(CONTEXT, route);
}

/** The address of the page; for the beginning of a component. */
export function useRoute(): FleetRoute {
  return getContext<FleetRoute>(CONTEXT);
}

/** The address of a view of a machine. */
export function machineHref(machineId: string, tab = "", partId = ""): string {
  const parts = [machineId, tab, partId].map(encodeURIComponent);
  while (parts.at(-1) === "") parts.pop();
  return `#/machine/${parts.join("/")}`;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
