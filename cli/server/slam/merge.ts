/** `slam merge`: makes one map of two maps of a building. */

import { dirname } from "node:path";
import { SvcError } from "../../../lib/base/error.ts";
import { MAPPER_DEFAULTS } from "../../../lib/slam/mapping.ts";
import { mergeMaps } from "../../../lib/slam/merging.ts";
import { mapFile, readMap } from "../../../lib/slam/pbstream/map_file.ts";
import type { Command } from "../../command.ts";
import { UsageError } from "../../flags.ts";
import { facts, printResult } from "../../table.ts";
import { ofMap } from "./info.ts";
import type { SlamContext } from "./slam_context.ts";

export const MERGE: Command<SlamContext> = {
  words: "merge",
  takes: ["MAP", "OTHER", "MERGED"],
  summary: "Merges two maps of one building, wherever each began: OTHER is put onto MAP, whose frame stays.",
  flags: [],
  run: async (
    { host },
    [path, otherPath, target]: readonly [map: string, other: string, merged: string],
    { json }: { json: boolean },
  ) => {
    if (!target.endsWith(".pbstream")) {
      throw new UsageError(`MERGED: found "${target}", wanted a .pbstream file`);
    }
    // A bad place fails now rather than after minutes.
    if ((await host.stat(dirname(target)))?.kind !== "folder") {
      throw new SvcError("not_found", `cannot write "${target}": there is no folder ${dirname(target)}`);
    }
    const first = await ofMap(path, () => readMap(host.readPieces(path)));
    const second = await ofMap(otherPath, () => readMap(host.readPieces(otherPath)));
    const { map, place, agreed, compared, fit } = mergeMaps(first, second, MAPPER_DEFAULTS);
    await host.writePieces(target, mapFile(map, MAPPER_DEFAULTS));
    const yawDeg = place.yaw * 180 / Math.PI;
    const result = {
      place: { x: place.x, y: place.y, yawDeg },
      agreed,
      compared,
      fit,
      nodes: map.nodes.length,
      submaps: map.submaps.length,
      written: target,
    };
    printResult(
      host,
      json,
      result,
      facts([
        [
          "place",
          `x ${place.x.toFixed(2)} m, y ${place.y.toFixed(2)} m, yaw ${yawDeg.toFixed(1)} degrees on ${path}`,
        ],
        ["scans", `${agreed} of ${compared} agree about it`],
        ["fit", `${Math.round(100 * fit)} % of what both maps show`],
        ["nodes", String(map.nodes.length)],
        ["submaps", String(map.submaps.length)],
        ["map", target],
      ]),
    );
  },
};
