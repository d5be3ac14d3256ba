/**
 * The address behind `#`: `#/` is the list, `#/machine/ID/TAB/PART` a machine, `#/rollouts/ID` a rollout, and
 * `#/data/TAB/ID` a dataset or a training job. `#/provider/QUERY` is the answer of the identity provider.
 */

export class FleetRoute {
  #hash = $state(location.hash);

  constructor() {
    addEventListener("hashchange", () => this.#hash = location.hash);
  }

  get view(): string {
    return this.#parts[0] ?? "";
  }

  /** Of the machine or rollout; the link of an invitation; which data. */
  get id(): string {
    return this.#parts[1] ?? "";
  }

  /** Of a machine; the dataset or the job. */
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
