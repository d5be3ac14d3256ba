/**
 * `specs` in Node, over gRPC as the library's own tests dial it. Use: sdk_specs.mjs URL; it prints what it saw as JSON.
 */

import process from "node:process";
import { specs } from "./specs.mjs";

const { createGrpcTransport } = await import("@connectrpc/connect-node");
globalThis.VIAM = {
  GRPC_TRANSPORT_FACTORY: (options) => createGrpcTransport({ httpVersion: "2", ...options }),
};
console.debug = console.info = console.warn = console.error;
const print = console.log;
console.log = console.error;
const sdk = await import("@viamrobotics/sdk");

const [url] = process.argv.slice(2);
const valid = { host: url, noReconnect: true };
const invalid = { host: "http://nobody.invalid:9999", noReconnect: true };
print(JSON.stringify(await specs(sdk, { valid, invalid, lasting: true })));
process.exit(0);
