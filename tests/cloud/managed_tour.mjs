/**
 * A machine that a control plane has given its certificate and keys, with the published TypeScript SDK: as somebody
 * who has a key, and as somebody who has not. Prints one JSON object of what it saw.
 *
 * Use: managed_tour.mjs URL KEY_ID KEY grpc|grpc-web
 */

import process from "node:process";

const { createGrpcTransport, createGrpcWebTransport } = await import("@connectrpc/connect-node");

const [host, authEntity, key, transport] = process.argv.slice(2);
globalThis.VIAM = {
  GRPC_TRANSPORT_FACTORY: (options) =>
    transport === "grpc"
      ? createGrpcTransport({ httpVersion: "2", ...options })
      : createGrpcWebTransport({ httpVersion: "1.1", ...options }),
};
const { MotorClient, RobotClient } = await import("@viamrobotics/sdk");

async function dial(payload) {
  const robot = new RobotClient();
  const credentials = { type: "api-key", authEntity, payload };
  return await robot.dial({ host, credentials, noReconnect: true });
}

const seen = {};
const robot = await dial(key);
const motor = new MotorClient(robot, "m");
await motor.setPower(0.25);
seen.powered = await motor.isPowered();
await robot.disconnect();
seen.wrong = await dial("wrong").then(() => "let in", () => "refused");
console.log(JSON.stringify(seen));
process.exit(0);
