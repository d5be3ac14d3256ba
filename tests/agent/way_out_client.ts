/**
 * Asks a control plane by gRPC and by HTTP with the trust and the proxies of its environment; prints the results as
 * JSON. Arguments: the address, a folder for files, and optionally a file of authorities that comes into the folder
 * afterwards: then it asks until the address is trusted.
 */

import { join } from "node:path";
import { authoritiesBeside, openWayOut } from "../../lib/base/way_out.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { Logs } from "../../lib/base/log/log.ts";
import { Secret } from "../../lib/base/secret.ts";
import { chainOf } from "../../lib/base/error.ts";
import { CloudClient } from "../../lib/cloud_client/client.ts";
import { until } from "../support/until.ts";

const [address, folder, lateAuthorities] = Deno.args;
const host = new DenoHost();
const wayOut = await openWayOut(host, {
  authorities: authoritiesBeside(folder, host),
  bundle: join(folder, "authorities.pem"),
});
const cloud = new CloudClient({
  ...{ address, partId: "p", clock: new SystemClock(), agent: undefined },
  credentials: { type: "api-key", entity: "e", payload: new Secret("no such key") },
  allowInsecureCredentials: true,
});

async function ask() {
  // A refusal is an answer of the control plane: the connection works.
  const grpc = await cloud.needsRestart({ timeoutMs: 20_000 }).then(
    () => "served",
    (error) => chainOf(error),
  );
  const http = await fetch(`${address}/ca.pem`).then(
    async (answer) => `${answer.status} ${(await answer.text()).slice(0, 27)}`,
    (error) => chainOf(error),
  );
  return { problems: wayOut.problems, grpc, http };
}

let answers = await ask();
if (lateAuthorities !== undefined) {
  const logs = new Logs(new SystemClock(), [({ message }) => console.error(message)]);
  const unfollow = wayOut.follow(host, new SystemClock(), logs.logger("client"));
  await Deno.copyFile(lateAuthorities, join(folder, "svc-ca.pem"));
  await until(async () => {
    answers = await ask();
    // The first one may still have been refused when the authority came.
    return answers.http.startsWith("200 ") && !answers.grpc.startsWith("cannot connect");
  }, { found: () => JSON.stringify(answers) });
  await unfollow();
}
cloud.close();
console.log(JSON.stringify(answers));
