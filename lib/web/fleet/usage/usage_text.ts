/** Limits and retentions in words. Pure. */

import { byteSize, inWords } from "../../shared/format.ts";
import type { ShownLimit, ShownRetention } from "./usage_calls.ts";

/** From this share on a limit is marked, and the control plane logs it. */
const WARN_SHARE = 0.8;
const WORDS: Readonly<Record<string, string>> = {
  packages_per_organization: "Versions of packages",
  package_bytes_per_organization: "Size of packages",
  data_bytes_per_organization: "Size of images and files",
  readings_per_organization: "Readings",
  reading_bytes_per_organization: "Size of readings",
  sink_bytes_per_organization: "Size of results of pipelines",
  log_bytes_per_organization: "Size of logs",
  config_bytes_per_organization: "Size of configurations with their history",
};

export interface LimitRow {
  readonly name: string;
  readonly title: string;
  readonly used: string;
  readonly allowed: string;
  /** 0 to 1, or more. */
  readonly share: number;
  readonly tone: "good" | "warn" | "bad";
  readonly remark: string;
}

/** Those that are used most come first. */
export function limitRows(limits: readonly ShownLimit[]): LimitRow[] {
  return limits.map(limitRow).sort((a, b) => b.share - a.share);
}

function limitRow({ name, used, allowed }: ShownLimit): LimitRow {
  const text = (amount: bigint) =>
    name.includes("bytes") ? byteSize(Number(amount)) : Number(amount).toLocaleString();
  const share = allowed > 0n ? Number(used) / Number(allowed) : 1;
  const common = {
    name,
    title: WORDS[name] ?? inWords(name),
    used: text(used),
    allowed: text(allowed),
    share,
  };
  if (share >= 1) return { ...common, tone: "bad", remark: "used up: more is refused" };
  if (share >= WARN_SHARE) return { ...common, tone: "warn", remark: "more than 80 % are used" };
  return { ...common, tone: "good", remark: "" };
}

/** `30 days, 5 GB of images and files`; without limits, until somebody removes it. */
export function retentionText(retention: ShownRetention | undefined): string {
  const { days = 0, binaryBytes = 0n, tabularBytes = 0n } = retention ?? {};
  const parts: string[] = [];
  if (days > 0) parts.push(`${days} ${days === 1 ? "day" : "days"}`);
  if (binaryBytes > 0n) parts.push(`${byteSize(Number(binaryBytes))} of images and files`);
  if (tabularBytes > 0n) parts.push(`${byteSize(Number(tabularBytes))} of readings`);
  return parts.join(", ") || "until somebody removes it";
}
