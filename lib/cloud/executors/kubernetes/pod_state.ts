/**
 * The state of a job, by the Job and its pods. Pure.
 *
 * The Job counts as active while its pod waits for an image that does not exist, and of a pod that the node has killed
 * it says only that it has failed: the pods tell why.
 */

import type { V1Job, V1Pod } from "./client.ts";

export interface ClusterState {
  readonly phase: "waiting" | "running" | "succeeded" | "failed" | "gone";
  /** The cluster's reason of its failure, or of its wait. */
  readonly reason: string;
  /** Whether it waits for something that seldom comes by itself, such as an image that cannot be pulled. */
  readonly isStuck?: boolean;
}

/** What a container waits for as long as nothing is wrong. */
const USUAL_WAITS = ["ContainerCreating", "PodInitializing"];

/** Whether its pods tell more than the Job itself. */
export function needsPods({ status }: V1Job): boolean {
  const hasSucceeded = (status?.succeeded ?? 0) > 0 || hasCondition(status, "Complete");
  return !hasSucceeded && (status?.ready ?? 0) === 0;
}

export function clusterStateOf({ status }: V1Job, pods: readonly V1Pod[]): ClusterState {
  const failed = status?.conditions?.find((one) => one.type === "Failed" && one.status === "True");
  if (failed) {
    return { phase: "failed", reason: [words(failed), ...pods.map(endOf)].filter(Boolean).join("; ") };
  }
  if ((status?.succeeded ?? 0) > 0 || hasCondition(status, "Complete")) {
    return { phase: "succeeded", reason: "" };
  }
  const waits = pods.filter((pod) => pod.status?.phase === "Pending").map(waitOf);
  const [wait] = waits;
  if (wait) return { phase: "waiting", ...wait };
  return { phase: (status?.active ?? 0) > 0 ? "running" : "waiting", reason: "" };
}

function hasCondition(status: V1Job["status"], type: string): boolean {
  return status?.conditions?.some((one) => one.type === type && one.status === "True") ?? false;
}

function waitOf({ status }: V1Pod): Pick<ClusterState, "reason" | "isStuck"> {
  const waiting = status?.containerStatuses?.map(({ state }) => state?.waiting)
    .find((one) => one?.reason && !USUAL_WAITS.includes(one.reason));
  if (waiting) return { reason: words(waiting), isStuck: true };
  // A place on a node comes when other pods end, or when the cluster grows.
  const unscheduled = status?.conditions?.find((one) =>
    one.type === "PodScheduled" && one.status === "False"
  );
  return { reason: unscheduled ? words(unscheduled) : "" };
}

/** How a pod has ended: evicted, or its container by a signal or a code. */
function endOf({ status }: V1Pod): string {
  const ended = status?.containerStatuses?.map(({ state }) => state?.terminated).find((one) => one);
  const container = ended && ended.reason !== "Completed"
    ? `${words(ended)} (exit code ${ended.exitCode})`
    : "";
  return [words(status ?? {}), container].filter(Boolean).join("; ");
}

function words({ reason, message }: { readonly reason?: string; readonly message?: string }): string {
  return [reason, message].filter(Boolean).join(": ");
}
