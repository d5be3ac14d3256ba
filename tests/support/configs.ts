/**
 * Configurations of machines for tests.
 */

import { decodeConfig, type MachineConfig } from "../../lib/machine/config/config.ts";
import { Registry } from "../../lib/resource/registry.ts";

/** The configuration of a file with nothing in it. */
export const EMPTY_CONFIG: MachineConfig =
  (await decodeConfig({}, new Registry([], []), { env: () => undefined })).config;
