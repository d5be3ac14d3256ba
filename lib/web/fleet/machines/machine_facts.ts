/** What the reports of a machine's parts say of the machine. Pure. */

import type { ShownReport } from "./report_calls.ts";

export interface MachineFacts {
  /** Of svc-server, of each part that runs another one; empty if unknown. */
  readonly versions: readonly string[];
  readonly tags: readonly string[];
  readonly hasReported: boolean;
  readonly unhealthyCount: number;
  /** Some of the resources that do not work, each with its reason. */
  readonly unhealthy: readonly string[];
  /** That of the part that is furthest from its configuration; empty if nobody asked. */
  readonly configState: string;
  /** Tags and versions for filters, in lower case. */
  readonly text: string;
}

export const NO_FACTS: MachineFacts = {
  versions: [],
  tags: [],
  hasReported: false,
  unhealthyCount: 0,
  unhealthy: [],
  configState: "",
  text: "",
};

/** Worst first. */
const CONFIG_STATES = ["behind", "held back", "unknown", "applied"];

/** By the machine's id. What the reports do not say is as `known` has it. */
export function machineFacts(
  reports: readonly ShownReport[],
  known: ReadonlyMap<string, MachineFacts>,
): Map<string, MachineFacts> {
  const facts = new Map(known);
  for (const [id, parts] of Map.groupBy(reports, ({ machineId }) => machineId)) {
    const versions = [...new Set(parts.map(({ serverVersion }) => serverVersion))].filter((one) =>
      one !== ""
    );
    const tags = parts[0]?.machineTags ?? [];
    const reported = CONFIG_STATES.find((one) => parts.some(({ configState }) => configState === one));
    facts.set(id, {
      versions,
      tags,
      hasReported: parts.some(({ hasReported }) => hasReported),
      unhealthyCount: parts.reduce((sum, { unhealthyCount }) => sum + unhealthyCount, 0),
      unhealthy: parts.flatMap(({ unhealthy }) => unhealthy),
      configState: reported ?? known.get(id)?.configState ?? "",
      text: [...tags, ...versions].join("\n").toLowerCase(),
    });
  }
  return facts;
}

export function configTone(configState: string): "good" | "warn" | "bad" | "" {
  const tones = { applied: "good", "held back": "warn", behind: "bad" } as const;
  return configState in tones ? tones[configState as keyof typeof tones] : "";
}
