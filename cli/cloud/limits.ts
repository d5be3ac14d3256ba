/**
 * Where `svc-cloud` reads what callers may use at most.
 */

import type { ReadFiles } from "../../lib/base/files/files.ts";
import { parseJsonc } from "../../lib/base/schema/jsonc.ts";
import { defaultLimits, type Limits, parseLimits } from "../../lib/cloud/access/limits.ts";
import type { Flag } from "../flags.ts";

export const LIMITS = {
  name: "limits",
  type: "string",
  default: "",
  value: "FILE",
  env: "SVC_CLOUD_LIMITS",
  help: "What callers may use at most (JSON): see docs/limits.md.",
} as const satisfies Flag;

export async function limitsOf(path: string, files: ReadFiles): Promise<Limits> {
  return path === ""
    ? defaultLimits()
    : parseLimits(parseJsonc(await files.readFile(path), { file: path }), path);
}
