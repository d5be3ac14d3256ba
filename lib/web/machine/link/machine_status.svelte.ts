/** The machine's resources with their states, its modules, packages and jobs, as GetMachineStatus tells every second. */

import type { RobotClient } from "@viamrobotics/sdk";
import { getContext, setContext } from "svelte";
import { poll } from "./poll.svelte.ts";
import { millisOf, type StatusMessage, StatusService } from "./wire.ts";

const EVERY_MS = 1000;
const CONTEXT = Symbol("the machine's status");

export type ResourceState = "unconfigured" | "configuring" | "ready" | "removing" | "unhealthy";
export type ModulePhase = "unknown" | "pending" | "starting" | "ready" | "unhealthy" | "closing";

/** A resource in the machine's status. */
export interface MachineResource {
  /** `rdk:component:motor` */
  readonly api: string;
  readonly name: string;
  /** `motor`, for people. */
  readonly type: string;
  /** `rdk:component:motor/motor1`: the key of its cards. */
  readonly id: string;
  readonly state: ResourceState;
  /** Why it is unhealthy: the chain of reasons, joined by colons. */
  readonly error: string;
  readonly updatedMs: number;
  readonly revision: string;
  /** The remote that it is part of. */
  readonly remote: string;
  /** Why clients do not reach it by its name. */
  readonly unreachable: string;
  /** Part of the program itself, such as its port, or a remote: it has no card. */
  readonly isInternal: boolean;
}

export interface MachineModule {
  readonly name: string;
  readonly state: ModulePhase;
  readonly error: string;
  readonly updatedMs: number;
  readonly failures: number;
}

const STATES: readonly ResourceState[] = [
  "unconfigured",
  "unconfigured",
  "configuring",
  "ready",
  "removing",
  "unhealthy",
];
const MODULE_STATES: readonly ModulePhase[] = [
  "unknown",
  "pending",
  "starting",
  "ready",
  "unhealthy",
  "closing",
];
const UNREACHABLE: readonly string[] = [
  "",
  "",
  "its remote is not connected",
  "a local resource has the same name",
  "several remotes have a resource of this name",
];

export class MachineStatus {
  readonly #poll = poll(fetchStatus, EVERY_MS);
  readonly resources = $derived(resourcesOf(this.#poll.value));
  readonly byId = $derived(new Map(this.resources.map((one) => [one.id, one])));
  readonly modules = $derived(modulesOf(this.#poll.value));

  get message(): StatusMessage | undefined {
    return this.#poll.value;
  }

  get problem(): string | undefined {
    return this.#poll.problem;
  }

  get isInitializing(): boolean {
    return this.message?.state === 1;
  }

  get revision(): string {
    return this.message?.config?.revision ?? "";
  }

  again(): void {
    this.#poll.again();
  }
}

async function fetchStatus(client: RobotClient): Promise<StatusMessage> {
  const service = client.createServiceClient(StatusService) as unknown as {
    getMachineStatus(request: object): Promise<StatusMessage>;
  };
  return await service.getMachineStatus({});
}

function resourcesOf(message: StatusMessage | undefined): readonly MachineResource[] {
  const found = (message?.resources ?? []).map((status): MachineResource => {
    const { namespace, type, subtype, name } = status.name ??
      { namespace: "", type: "", subtype: "", name: "" };
    const api = `${namespace}:${type}:${subtype}`;
    // A remote's resource is reached by its short name, and its full one tells two of the same name apart.
    const unreachable = UNREACHABLE[status.reachability] ?? "";
    return {
      api,
      name,
      type: subtype || type,
      id: unreachable ? `${api}/${status.remote}:${name}` : `${api}/${name}`,
      state: STATES[status.state] ?? "unconfigured",
      error: status.error,
      updatedMs: millisOf(status.lastUpdated),
      revision: status.revision,
      remote: status.remote,
      unreachable,
      isInternal: namespace === "rdk-internal" || type === "remote",
    };
  });
  return found.sort((a, b) => compare(a.type, b.type) || compare(a.name, b.name));
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

function modulesOf(message: StatusMessage | undefined): readonly MachineModule[] {
  return (message?.modules ?? []).map(({ moduleName, state, error, lastUpdated, consecutiveFailures }) => ({
    name: moduleName,
    state: MODULE_STATES[state] ?? "unknown",
    error,
    updatedMs: millisOf(lastUpdated),
    failures: consecutiveFailures,
  }));
}

export function provideStatus(): MachineStatus {
  return setContext(CONTEXT, new MachineStatus());
}

export function useStatus(): MachineStatus {
  return getContext<MachineStatus>(CONTEXT);
}
