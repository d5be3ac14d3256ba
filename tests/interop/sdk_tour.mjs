/**
 * The tour as a program of its own: it runs in Node and in Deno, unchanged. It prints one JSON object of what it saw;
 * the test that started it judges.
 *
 * Use: sdk_tour.mjs URL [grpc|grpc-web|webrtc [HOST KEY-ID KEY]]; WebRTC as the library's documentation has it for Node.
 * With a host the URL is that of its control plane.
 */

import process from "node:process";
import { tour } from "./tour.mjs";

// Where there are workers the library takes itself to be in a browser and starts one of a kind that Deno has not.
delete globalThis.Worker;

const sdk = await import("@viamrobotics/sdk");

const [url, transport = "grpc", host = new URL(url).host, authEntity, payload] = process.argv.slice(2);

if (transport === "webrtc") Object.assign(globalThis, await import("node-datachannel/polyfill"));
if (transport !== "grpc-web") {
  const { createGrpcTransport } = await import("@connectrpc/connect-node");
  globalThis.VIAM = {
    GRPC_TRANSPORT_FACTORY: (options) => createGrpcTransport({ httpVersion: "2", ...options }),
  };
}

const credentials = authEntity && { type: "api-key", authEntity, payload };
const robot = new sdk.RobotClient();
const dial = transport === "webrtc"
  ? () => sdk.createRobotClient({ host, signalingAddress: url, credentials, noReconnect: true })
  : async () => {
    await robot.dial({ host: url, noReconnect: true });
    return robot;
  };

console.log(JSON.stringify(await tour(sdk, dial)));
process.exit(0);
