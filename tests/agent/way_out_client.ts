/**
 * Asks a control plane by gRPC and by HTTP with the trust and the proxies of its environment; prints the results as
 * JSON. Arguments: the address, and a folder for files.
 */

import { join } from "node:path";
import { authoritiesBeside, openWayOut } from "../../lib/base/way_out.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { Secret } from "../../lib/base/secret.ts";
import { chainOf } from "../../lib/base/error.ts";
import { CloudClient } from "../../lib/cloud_client/client.ts";

const [address, folder] = Deno.args;
const host = new DenoHost();
const problems = await openWayOut(host, {
  authorities: authoritiesBeside(folder, host),
  bundle: join(folder, "authorities.pem"),
});
const cloud = new CloudClient({
  ...{ address, partId: "p", clock: new SystemClock(), agent: undefined },
  credentials: { type: "api-key", entity: "e", payload: new Secret("no such key") },
  allowInsecureCredentials: true,
});
// A refusal is an answer of the control plane: the connection works.
const grpc = await cloud.needsRestart({ timeoutMs: 20_000 }).then(() => "served", (error) => chainOf(error));
cloud.close();
const http = await fetch(`${address}/ca.pem`).then(
  async (answer) => `${answer.status} ${(await answer.text()).slice(0, 27)}`,
  (error) => chainOf(error),
);
console.log(JSON.stringify({ problems, grpc, http }));
