/**
 * The machine's configuration file over the network: its service, and the connection that may change it.
 *
 * On a machine without keys only a program on the same computer may change the file, which the machine sees on a direct
 * connection and not over WebRTC; so the view takes a direct one there.
 */

import { RobotClient } from "@viamrobotics/sdk";
import type { PageLink } from "./page_link.svelte.ts";
import { wireMessage, wireService } from "./wire.ts";

const Empty = (name: string) => wireMessage(`svc.machine.v1.${name}Request`, {});
const Changed = wireMessage("svc.machine.v1.ApplyConfigurationResponse", { revision: [1, "string"] });
const Problem = wireMessage("svc.machine.v1.Problem", {
  path: [1, "string"],
  message: [2, "string"],
  is_warning: [3, "bool"],
  from: [4, "int32"],
  to: [5, "int32"],
});
const Version = wireMessage("svc.machine.v1.Version", {
  id: [1, "string"],
  until_ms: [2, "int64"],
  size_bytes: [3, "int32"],
});
const TextAndRevision = { text: [1, "string"], revision: [2, "string"] } as const;

const ConfigurationService = wireService("svc.machine.v1.ConfigurationService", {
  GetConfiguration: [
    Empty("GetConfiguration"),
    wireMessage("svc.machine.v1.GetConfigurationResponse", {
      ...TextAndRevision,
      path: [3, "string"],
      read_only_reason: [4, "string"],
      managed_by: [5, "string"],
    }),
  ],
  GetSchema: [Empty("GetSchema"), wireMessage("svc.machine.v1.GetSchemaResponse", { json: [1, "string"] })],
  CheckConfiguration: [
    wireMessage("svc.machine.v1.CheckConfigurationRequest", { text: [1, "string"] }),
    wireMessage("svc.machine.v1.CheckConfigurationResponse", {
      problems: [1, Problem, "repeated"],
      is_usable: [2, "bool"],
    }),
  ],
  ApplyConfiguration: [wireMessage("svc.machine.v1.ApplyConfigurationRequest", TextAndRevision), Changed],
  ListVersions: [
    Empty("ListVersions"),
    wireMessage("svc.machine.v1.ListVersionsResponse", { versions: [1, Version, "repeated"] }),
  ],
  GetVersion: [
    wireMessage("svc.machine.v1.GetVersionRequest", { id: [1, "string"] }),
    wireMessage("svc.machine.v1.GetVersionResponse", { text: [1, "string"] }),
  ],
  RestoreVersion: [
    wireMessage("svc.machine.v1.RestoreVersionRequest", { id: [1, "string"], revision: [2, "string"] }),
    wireMessage("svc.machine.v1.RestoreVersionResponse", { revision: [1, "string"] }),
  ],
});

export interface ConfigFile {
  /** With marks, `******(1)`, in place of its secrets. */
  readonly text: string;
  readonly revision: string;
  readonly path: string;
  /** Why this page may not change the file; empty if it may. */
  readonly readOnlyReason: string;
  /** The control plane that the configuration comes from; empty if the file is all. */
  readonly managedBy: string;
}

export interface ConfigProblem {
  readonly path: string;
  readonly message: string;
  readonly isWarning: boolean;
  readonly from: number;
  readonly to: number;
}

export interface FileVersion {
  readonly id: string;
  readonly untilMs: bigint;
  readonly sizeBytes: number;
}

export interface ConfigCalls {
  getConfiguration(request: object): Promise<ConfigFile>;
  getSchema(request: object): Promise<{ readonly json: string }>;
  checkConfiguration(
    request: { readonly text: string },
  ): Promise<{ readonly problems: readonly ConfigProblem[]; readonly isUsable: boolean }>;
  applyConfiguration(
    request: { readonly text: string; readonly revision: string },
  ): Promise<{ readonly revision: string }>;
  listVersions(request: object): Promise<{ readonly versions: readonly FileVersion[] }>;
  getVersion(request: { readonly id: string }): Promise<{ readonly text: string }>;
  restoreVersion(
    request: { readonly id: string; readonly revision: string },
  ): Promise<{ readonly revision: string }>;
}

/** The calls over the page's connection, or a direct one of their own; `close` ends that one. */
export async function connectConfig(
  link: PageLink,
): Promise<{ readonly calls: ConfigCalls; readonly close: () => void }> {
  if (link.client && (link.guarded || link.kind === "direct")) {
    return { calls: callsOf(link.client), close: () => {} };
  }
  const direct = new RobotClient(link.address, undefined, undefined, { noReconnect: true });
  await direct.connect({ dialTimeout: 5000 });
  return { calls: callsOf(direct), close: () => void direct.disconnect().catch(() => {}) };
}

/** The settings of a component in the machine's file; `undefined` if the file does not tell. */
export async function configuredAttributes(
  client: RobotClient,
  name: string,
): Promise<Readonly<Record<string, unknown>> | undefined> {
  try {
    const { text } = await callsOf(client).getConfiguration({});
    const { components = [] } = JSON.parse(text) as {
      readonly components?: readonly {
        readonly name?: string;
        readonly attributes?: Record<string, unknown>;
      }[];
    };
    return components.find((one) => one.name === name)?.attributes;
  } catch {
    // It has comments, or another program keeps it.
    return undefined;
  }
}

function callsOf(client: RobotClient): ConfigCalls {
  return client.createServiceClient(ConfigurationService) as unknown as ConfigCalls;
}
