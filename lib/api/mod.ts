/**
 * Every API the machine serves. Order does not matter; each line is one kind of resource.
 */

import type { AnyApi } from "../resource/registry.ts";
import { MotorApi } from "./motor.ts";
import { PUBLISHED } from "./published.ts";

export const APIS: readonly AnyApi[] = [
  MotorApi,
  ...PUBLISHED,
];
