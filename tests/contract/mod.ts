/**
 * Every contract. A new API with models adds its own here.
 */

import type { Contract } from "./contract.ts";

// deno-lint-ignore no-explicit-any
export const CONTRACTS: readonly Contract<any>[] = [];
