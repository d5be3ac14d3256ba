/**
 * Drives the base of a machine through its building with the published library, and prints as one JSON object what its
 * SLAM service made of that.
 *
 * Use: slam_tour.mjs URL
 */

import process from "node:process";

// Where there are workers the library takes itself to be in a browser and starts one of a kind that Deno has not.
delete globalThis.Worker;

const sdk = await import("@viamrobotics/sdk");
const { createGrpcTransport } = await import("@connectrpc/connect-node");
globalThis.VIAM = {
  GRPC_TRANSPORT_FACTORY: (options) => createGrpcTransport({ httpVersion: "2", ...options }),
};

const [url] = process.argv.slice(2);
const robot = new sdk.RobotClient();
await robot.dial({ host: url, noReconnect: true });
const base = new sdk.BaseClient(robot, "rover");
const slam = new sdk.SlamClient(robot, "slam");

/** The last scan of a drive may come late on a busy machine: the robot stands so long at most until it is known. */
const SETTLED_MS = 30_000;
const SETTLED_M = 0.3;
const ASK_EVERY_MS = 100;
const truthOf = () => base.doCommand(sdk.Struct.fromJson({ truth: true }));
const from = await truthOf();

const { mappingMode, cloudSlam, internalStateFileType, sensorInfo } = await slam.getProperties();
await base.moveStraight(3000, 700);
await base.spin(40, 60);
await base.moveStraight(800, 500);
await base.spin(-40, 60);
await base.moveStraight(1500, 700);
let seen;
for (const endMs = Date.now() + SETTLED_MS; Date.now() < endMs;) {
  const [{ pose }, truth] = await Promise.all([slam.getPosition(), truthOf()]);
  seen = { pose: { x: pose.x, y: pose.y, theta: pose.theta }, truth };
  const missedM = Math.hypot(pose.x / 1000 + from.x_m - truth.x_m, pose.y / 1000 + from.y_m - truth.y_m);
  if (missedM < SETTLED_M) break;
  await new Promise((resolve) => setTimeout(resolve, ASK_EVERY_MS));
}
const map = await slam.getPointCloudMap();
const state = await slam.getInternalState();
console.log(JSON.stringify({
  properties: { mappingMode, cloudSlam, internalStateFileType, sensors: sensorInfo.map(({ name }) => name) },
  ...seen,
  map: map.toBase64?.() ?? Buffer.from(map).toString("base64"),
  state: Buffer.from(state).toString("base64"),
}));
process.exit(0);
