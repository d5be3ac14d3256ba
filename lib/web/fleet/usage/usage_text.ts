/** Limits and retentions in words. Pure. */

import { counted } from "../../../base/log/counted.ts";
import { byteSize, inWords } from "../../shared/format.ts";
import type { RetentionRequest, ShownLimit, ShownRetention } from "./usage_calls.ts";

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
  if (days > 0) parts.push(daysText(days));
  if (binaryBytes > 0n) parts.push(`${byteSize(Number(binaryBytes))} of images and files`);
  if (tabularBytes > 0n) parts.push(`${byteSize(Number(tabularBytes))} of readings`);
  return parts.join(", ") || "until somebody removes it";
}

export function daysText(days = 0): string {
  return counted(days, "day");
}

const GB_BYTES = 1_000_000_000;

/** What owners may set. Sizes are in GB. */
export const KEPT_FIELDS = [
  { name: "days", label: "Captured data, days" },
  { name: "files", label: "Images and files, GB" },
  { name: "readings", label: "Readings, GB" },
  { name: "logs", label: "Logs of machines, days" },
] as const;

/** The values in the fields' units; empty for none. */
export function keptTexts(kept: ShownRetention | undefined, logDays = 0): Record<string, string> {
  const { days = 0, binaryBytes = 0n, tabularBytes = 0n } = kept ?? {};
  return {
    days: days > 0 ? String(days) : "",
    files: binaryBytes > 0n ? String(Number(binaryBytes) / GB_BYTES) : "",
    readings: tabularBytes > 0n ? String(Number(tabularBytes) / GB_BYTES) : "",
    logs: logDays > 0 ? String(logDays) : "",
  };
}

/** Throws an error for people if a field has no number. */
export function keptRequest(
  organizationId: string,
  typed: Readonly<Record<string, string>>,
): RetentionRequest {
  const bytes = (name: string) => BigInt(Math.floor(numberIn(typed, name) * GB_BYTES));
  const days = wholeIn(typed, "days");
  const own = { days, binaryBytes: bytes("files"), tabularBytes: bytes("readings") };
  return { organizationId, own, ownLogDays: wholeIn(typed, "logs") };
}

function wholeIn(typed: Readonly<Record<string, string>>, name: string): number {
  const value = numberIn(typed, name);
  if (Number.isInteger(value)) return value;
  throw new Error(`${labelOf(name)}: found ${typed[name]}, wanted a whole number above 0`);
}

/** 0 for an empty field. */
function numberIn(typed: Readonly<Record<string, string>>, name: string): number {
  const text = (typed[name] ?? "").trim().replace(",", ".");
  if (text === "") return 0;
  const value = /^[\d.]+$/.test(text) ? Number(text) : NaN;
  if (value > 0 && value <= 1_000_000) return value;
  throw new Error(`${labelOf(name)}: found ${text}, wanted a number above 0, at most a million`);
}

function labelOf(name: string): string {
  return KEPT_FIELDS.find((one) => one.name === name)?.label ?? name;
}

/** Whether something that was kept before may be removed. */
export function tightens(
  typed: Readonly<Record<string, string>>,
  before: Readonly<Record<string, string>>,
  bounds: Readonly<Record<string, string>>,
): boolean {
  const limitIn = (values: Readonly<Record<string, string>>, name: string) =>
    numberIn(values, name) || numberIn(bounds, name) || Infinity;
  return KEPT_FIELDS.some(({ name }) => limitIn(typed, name) < limitIn(before, name));
}
