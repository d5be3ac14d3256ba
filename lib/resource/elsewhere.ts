/**
 * Published models that this runtime does not have, each with the reason. A configuration that names one is told the
 * reason instead of a similar name; docs/models.md lists them.
 */

const MICROCONTROLLER =
  "only the published runtime for microcontrollers has it, which runs on the chip itself";

/** By API and model. */
const ELSEWHERE: ReadonlyMap<string, string> = new Map([
  ["rdk:component:board rdk:builtin:esp32", MICROCONTROLLER],
  ["rdk:component:camera rdk:builtin:esp32-camera", MICROCONTROLLER],
  ["rdk:component:sensor rdk:builtin:free-heap", MICROCONTROLLER],
  ["rdk:component:sensor rdk:builtin:wifi-rssi", MICROCONTROLLER],
  [
    "rdk:component:camera rdk:builtin:replay_pcd",
    "it replays point clouds out of the published cloud; `svc:lidar:replay` and `replay` replay files",
  ],
  [
    "rdk:component:movement_sensor rdk:builtin:replay",
    "it replays readings out of the published cloud; `svc:odometry:replay` replays a file",
  ],
  [
    "rdk:service:navigation rdk:builtin:builtin",
    "it drives between places on the Earth with a planner for bases, which this runtime does not have; a module may serve it",
  ],
]);

/** Models that the published runtime for microcontrollers has and this one never will, without `rdk:builtin:`. */
export const MICROCONTROLLER_MODELS: readonly string[] = [...ELSEWHERE].flatMap(([key, reason]) =>
  reason === MICROCONTROLLER ? [key.slice(key.lastIndexOf(":") + 1)] : []
);

/** Why this runtime does not have a published model; undefined for all others. */
export function elsewhereReason(api: string, model: string): string | undefined {
  return ELSEWHERE.get(`${api} ${model}`);
}
