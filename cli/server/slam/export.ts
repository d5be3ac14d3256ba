/**
 * `slam map export` and `slam map picture`: exports a map for other programs, and draws it for people.
 */

import { basename } from "node:path";
import { SvcError } from "../../../lib/base/error.ts";
import type { Host } from "../../../lib/base/host.ts";
import { encodeImage, MIME } from "../../../lib/geometry/image/image.ts";
import { drawMap, rosMap } from "../../../lib/slam/map_drawing.ts";
import { mapCloud, type MapPicture, paintMap } from "../../../lib/slam/map_picture.ts";
import type { MapState } from "../../../lib/slam/map_state.ts";
import { g2oText } from "../../../lib/slam/pose_graph_file.ts";
import { readMap } from "../../../lib/slam/pbstream/map_file.ts";
import type { Command } from "../../command.ts";
import { UsageError } from "../../flags.ts";
import { printResult } from "../../table.ts";
import { ofMap } from "./info.ts";
import type { SlamContext } from "./slam_context.ts";

export const EXPORT: Command<SlamContext> = {
  words: "map export",
  takes: ["MAP", "FILE..."],
  summary:
    "Writes a map as .png, .pcd, .g2o (the pose graph), or .pgm with the .yaml that ROS reads beside it.",
  flags: [],
  run: async (
    { host },
    [path, ...targets]: readonly [map: string, ...files: string[]],
    { json }: { json: boolean },
  ) => {
    for (const target of targets) formOf(target);
    const map = await ofMap(path, () => readMap(host.readPieces(path)));
    const picture = pictureOf(map, path);
    const written: string[] = [];
    for (const target of targets) written.push(...await FORMS[formOf(target)](host, target, picture, map));
    printResult(host, json, { written }, written.map((one) => `wrote ${one}`));
  },
};

export const PICTURE: Command<SlamContext> = {
  words: "map picture",
  takes: ["MAP", "FILE"],
  summary: "Draws a map with its trajectories, submaps and loop closures as .png.",
  flags: [],
  run: async (
    { host },
    [path, target]: readonly [map: string, file: string],
    { json }: { json: boolean },
  ) => {
    if (formOf(target) !== ".png") throw wrongForm(target, ".png");
    const map = await ofMap(path, () => readMap(host.readPieces(path)));
    await writePng(host, target, pictureOf(map, path), map);
    printResult(host, json, { written: [target] }, [`wrote ${target}`]);
  },
};

/** The writer of each file extension; it returns the paths of the written files. */
const FORMS = {
  ".png": (host: Host, path: string, picture: MapPicture) => writePng(host, path, picture),
  ".pcd": async (host: Host, path: string, picture: MapPicture) => {
    await host.writeFile(path, mapCloud(picture));
    return [path];
  },
  ".pgm": async (host: Host, path: string, picture: MapPicture) => {
    const { pgm, yaml } = rosMap(picture, basename(path));
    const described = path.replace(/\.pgm$/, ".yaml");
    await host.writeFile(path, pgm);
    await host.writeFile(described, yaml);
    return [path, described];
  },
  ".g2o": async (host: Host, path: string, _picture: MapPicture, map: MapState) => {
    await host.writeFile(path, new TextEncoder().encode(g2oText(map)));
    return [path];
  },
} as const;

function formOf(path: string): keyof typeof FORMS {
  const endings = Object.keys(FORMS) as (keyof typeof FORMS)[];
  const found = endings.find((ending) => path.endsWith(ending));
  if (found) return found;
  throw wrongForm(path, endings.join(", "));
}

function wrongForm(path: string, wanted: string): UsageError {
  return new UsageError(`"${path}" is a file of an unknown kind, wanted ${wanted}`);
}

/** Throws `failed_precondition` for an empty map. */
function pictureOf({ submaps }: MapState, path: string): MapPicture {
  const picture = paintMap(submaps);
  if (picture.width > 0) return picture;
  throw new SvcError("failed_precondition", `the map "${path}" has no submaps, so there is nothing to draw`);
}

async function writePng(host: Host, path: string, picture: MapPicture, map?: MapState): Promise<string[]> {
  await host.writeFile(path, encodeImage({ kind: "color", image: drawMap(picture, map) }, MIME.png));
  return [path];
}
