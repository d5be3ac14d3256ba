/**
 * Maps a recording of a robot, as `deno task compare mapping` asks it of every mapper: reads a log of CARMEN from
 * standard input, and prints for each scan a line with its time and the place of the robot, `timeS x y yaw`.
 */

import { readCarmenLog } from "../../../lib/slam/evaluation/carmen.ts";
import { replay } from "../../../lib/slam/evaluation/replay.ts";
import { Mapper } from "../../../lib/slam/mapper.ts";
import { MAPPER_DEFAULTS } from "../../../lib/slam/mapping.ts";

const log = readCarmenLog(await new Response(Deno.stdin.readable).text());
const mapper = new Mapper({ mode: "create", options: MAPPER_DEFAULTS });
const lines = replay(log, mapper, { withOdometry: true })
  .map(({ timeS, pose }) => `${timeS} ${pose.x} ${pose.y} ${pose.yaw}\n`);
await Deno.stdout.write(new TextEncoder().encode(lines.join("")));
