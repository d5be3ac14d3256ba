/** Checks svc-server on Windows with the published client library outside. */

import { nodeFolder } from "../interop/programs.ts";
import { tour } from "../interop/tours.ts";
import { type ServerProcess, withDemo } from "../support/server.ts";
import { withFront } from "./front.ts";
import type { Check, World } from "./world.ts";

/** Runs a tour of the example machine with the TypeScript library in Node. */
async function drive(
  { computer, pathOf }: World,
  transport: string,
  reach: (server: ServerProcess, use: (url: string) => Promise<void>) => Promise<void>,
): Promise<void> {
  const folder = await nodeFolder();
  await withDemo(
    (server) => reach(server, (url) => tour(server, ["node", `${folder}/sdk_tour.mjs`, url, transport])),
    [],
    [...computer.runner, pathOf("svc-server")],
  );
}

export const machineChecks: readonly Check[] = [
  {
    name: "the published TypeScript library drives the example machine over gRPC, from outside",
    group: "machine",
    run: (world) => drive(world, "grpc", ({ url }, use) => use(url)),
  },
  {
    name: "the published TypeScript library drives the example machine over gRPC-web, from outside",
    group: "machine",
    run: async (world) => {
      await drive(world, "grpc-web", ({ url }, use) => withFront(url, use));
      return "HTTP/1.1 as far as a front: this runtime does not answer it";
    },
  },
  {
    name: "the published TypeScript library drives the example machine over WebRTC, from outside",
    group: "machine",
    run: (world) => drive(world, "webrtc", ({ url }, use) => use(url)),
  },
];
