/** Every section of the specification, in the order of the page. */

import { AGENT_SECTIONS } from "./agent_rows.ts";
import { MODELS } from "./model_rows.ts";
import type { Section } from "./row.ts";
import { SERVER } from "./server_rows.ts";
import { TRAINING_SECTIONS } from "./training_rows.ts";

export const SECTIONS: readonly Section[] = [...SERVER, ...AGENT_SECTIONS, ...MODELS, ...TRAINING_SECTIONS];
