/**
 * Every model built into the machine. A new one is a file beside these and a line here.
 */

import type { AnyModel } from "../lib/resource/registry.ts";

export const MODELS: readonly AnyModel[] = [];
