/** Replaces a map again and again, as fast as it can, and says so: to be killed on the way. */

import { DenoHost } from "../../lib/base/host_deno.ts";
import { MAPPER_DEFAULTS } from "../../lib/slam/mapping.ts";
import { mapFile } from "../../lib/slam/pbstream/map_file.ts";
import { sampleMap } from "../support/map_states.ts";

const [path] = Deno.args;
const host = new DenoHost();
for (let seed = 1;; seed++) {
  await host.writePieces(path, mapFile(sampleMap(seed), MAPPER_DEFAULTS));
  host.write(`${seed}\n`);
}
