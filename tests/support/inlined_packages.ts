/** A program for the test of bundles: uses packages that a bundle includes, and prints what each came to. */

import { X509CertificateGenerator } from "@peculiar/x509";
import postgres from "postgres";
import { openBus } from "../../lib/base/bus/bus.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { messageOf } from "../../lib/base/error.ts";
import { checkedCreation } from "../../lib/cloud/accounts/passkeys/proof.ts";
import { openCluster } from "../../lib/cloud/executors/kubernetes/cluster.ts";
import { PasskeyDevice } from "./passkey_device.ts";

async function certificate(): Promise<string> {
  const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
  const keys = await crypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const made = await X509CertificateGenerator.createSelfSigned({
    name: "CN=bundle",
    keys,
    signingAlgorithm: algorithm,
  });
  return `${made.subject} ${await made.verify({ publicKey: made.publicKey })}`;
}

/** The state of a job in a cluster that answers every request alike. */
async function job(): Promise<string> {
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => {} }, () => {
    return Response.json({ kind: "Job", status: { active: 1 } });
  });
  const file = await Deno.makeTempFile();
  const cluster = { server: `http://127.0.0.1:${server.addr.port}`, "insecure-skip-tls-verify": true };
  const config = {
    "current-context": "one",
    clusters: [{ name: "one", cluster }],
    contexts: [{ name: "one", context: { cluster: "one", user: "one" } }],
    users: [{ name: "one", user: {} }],
  };
  await Deno.writeTextFile(file, JSON.stringify(config));
  const { phase } = await (await openCluster("space", new SystemClock(), file)).state("job");
  await Deno.remove(file);
  await server.shutdown();
  return phase;
}

/** What connecting to a closed port fails with. */
async function refusal(): Promise<string> {
  const sql = postgres("postgres://user@127.0.0.1:1/data", { max: 1, backoff: false });
  const error = await sql`SELECT 1`.then(() => undefined, (error) => error);
  await sql.end({ timeout: 0 });
  return error?.code ?? "none";
}

/** Whether a device's new passkey is read. */
async function passkey(): Promise<boolean> {
  const party = { id: "one.example", origin: "https://one.example" };
  const device = new PasskeyDevice(party.origin);
  const answer = device.create({ challenge: "AAAA", rp: party, user: { id: "AAAA" } });
  return (await checkedCreation(answer, "AAAA", party)).id === device.id;
}

/** What connecting to a bus that is not there fails with. */
async function noBus(): Promise<string> {
  return await openBus({ env: () => "unix:path=/nowhere/bus" }, new SystemClock()).then(
    () => "none",
    messageOf,
  );
}

console.log(
  JSON.stringify([await certificate(), await job(), await refusal(), await noBus(), await passkey()]),
);
Deno.exit(0);
