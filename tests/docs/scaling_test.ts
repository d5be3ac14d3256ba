/** The files of examples/control_planes, which docs/scaling.md describes. `tests/chaos` starts three control planes. */

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { parse } from "@std/yaml";
import { SERVE_FLAGS } from "../../cli/cloud/serve/flags.ts";
import { parseFlags } from "../../cli/flags.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { openStore } from "../../lib/cloud/store/open_store.ts";
import { databaseDangers } from "../../lib/cloud/store/postgres/dangers.ts";
import { postgresAddress } from "../../lib/cloud/store/postgres/address.ts";
import { isS3Address, parseS3Address } from "../../lib/cloud/store/s3/s3_address.ts";
import { postgresPrograms, startPostgres } from "../support/postgres.ts";
import { needingTest } from "../support/needing.ts";
import { programHere } from "../support/programs_here.ts";
import { CLOUD_FLAGS } from "../../cli/cloud/cloud_flags.ts";

const programs = postgresPrograms();
const FOLDER = new URL("../../examples/control_planes/", import.meta.url);
const DOCS = new URL("../../docs/", import.meta.url);
const read = (name: string) => Deno.readTextFile(new URL(name, FOLDER));

interface Compose {
  readonly services: Readonly<Record<string, ComposeService>>;
  readonly networks: { readonly inside: { ipam: { config: readonly { subnet: string }[] } } };
  readonly volumes: Readonly<Record<string, unknown>>;
}

interface ComposeService {
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly volumes?: readonly string[];
  readonly depends_on?: readonly string[];
}

Deno.test("the compose file starts three control planes with the same database, contents and keys", async () => {
  const { services, networks, volumes }: Compose = JSON.parse(
    JSON.stringify(parse(await read("compose.yaml"))),
  );
  const [operating, cloud] = await Promise.all(
    ["operating.md", "cloud.md"].map((name) => Deno.readTextFile(new URL(name, DOCS))),
  );
  const [, containerfile = ""] = /```dockerfile\n([\s\S]*?)```/.exec(operating) ?? [];
  const planes = Object.entries(services).filter(([name]) => name.startsWith("cloud-"));
  assertEquals(planes.map(([name]) => name), ["cloud-1", "cloud-2", "cloud-3"]);
  for (const [, { command = [], environment = {}, volumes: mounted = [] }] of planes) {
    assertEquals(command[0], "serve");
    const flags = [...CLOUD_FLAGS, ...SERVE_FLAGS];
    const { values } = parseFlags(
      flags,
      "gnu",
      command.slice(1).map((one) => one.replace("${PUBLIC_URL}", "https://x")),
    );
    assertEquals(values.listen, "0.0.0.0:8090");
    assert(isS3Address(values.files));
    assertEquals(parseS3Address(values.files, () => undefined).endpoint, "http://store:7070");
    assertEquals(mounted, [`keys:${values.keys}`]);
    // A volume takes its owner from the folder in the image.
    assertMatch(containerfile, new RegExp(`install --directory --owner=svc-cloud .*${values.keys}\\b`));
    assertEquals(values.trustedProxy, networks.inside.ipam.config.map(({ subnet }) => subnet));
    const { servers, database, user, password } = postgresAddress(environment.SVC_CLOUD_DATABASE);
    assertEquals([servers[0].host, database, user], ["database", "svc_cloud", "svc_cloud"]);
    // In the variable, a password may have any characters.
    assertEquals([password, environment.PGPASSWORD], [undefined, "${POSTGRES_PASSWORD}"]);
    for (const name of Object.keys(environment)) assertStringIncludes(operating + cloud, name);
    // The gateway takes each folder for a bucket, and svc-cloud makes none.
    const { bucket } = parseS3Address(values.files, () => undefined);
    const { command: gateway = [], volumes: kept } = services.store!;
    assertEquals(kept, [`contents:${gateway.at(-1)}/${bucket}`]);
  }
  for (const { volumes: mounted = [], depends_on: needs = [] } of Object.values(services)) {
    for (const name of mounted.map((one) => one.split(":")[0]).filter((one) => !one.startsWith("."))) {
      assert(name in volumes, name);
    }
    for (const name of needs) assert(name in services, name);
  }
  const servers = [...(await read("haproxy.cfg")).matchAll(/^ {2}server (\S+) (\S+)$/gm)];
  assertEquals(
    servers.map(([, name, address]) => [name, address]),
    planes.map(([name]) => [name, `${name}:8090`]),
  );
});

needingTest(
  "the database of the compose file has a role that can do nothing else on the server",
  programs === undefined ? { missing: "PostgreSQL: apt-get install postgresql" } : { found: programs },
  async (programs) => {
    const server = startPostgres();
    try {
      const file = new URL("database.sql", FOLDER).pathname;
      const connection = ["-h", "127.0.0.1", "-p", String(server.port), "-U", "svc", "-d", "postgres"];
      const { success, stderr } = await new Deno.Command(`${programs}/psql`, {
        args: ["-v", "ON_ERROR_STOP=1", ...connection, "-f", file],
        env: { POSTGRES_PASSWORD: 'it\'s a "secret" of $HOME' },
      }).output();
      assert(success, new TextDecoder().decode(stderr));

      const { services }: Compose = JSON.parse(JSON.stringify(parse(await read("compose.yaml"))));
      assertStringIncludes(JSON.stringify(services.database), "./database.sql:/docker-entrypoint-initdb.d/");
      const url = services["cloud-1"].environment!.SVC_CLOUD_DATABASE;
      const store = await openStore(
        { url: url.replace("@database/", `@127.0.0.1:${server.port}/`) },
        new SystemClock(),
      );
      try {
        assertEquals(await databaseDangers(store), []);
      } finally {
        await store.close();
      }
    } finally {
      server.stop();
    }
  },
);

needingTest("HAProxy accepts its file", programHere("haproxy"), async (haproxy) => {
  const file = await Deno.makeTempFile();
  try {
    const text = (await read("haproxy.cfg")).replace(/bind :8443 .*/, "bind 127.0.0.1:8443")
      .replace(/cloud-\d:8090/g, "127.0.0.1:8090");
    await Deno.writeTextFile(file, text);
    const { success, stderr } = await new Deno.Command(haproxy, { args: ["-c", "-f", file] }).output();
    assert(success, new TextDecoder().decode(stderr));
  } finally {
    await Deno.remove(file);
  }
});

Deno.test("the manifest for training gives svc-cloud the documented rights, and pods the control plane alone", async () => {
  const manifests: Manifest[] = JSON.parse(
    JSON.stringify((await read("training.yaml")).split(/^---$/m).map((one) => parse(one))),
  );
  const of = (kind: string) => manifests.find((one) => one.kind === kind)!;
  for (const { kind, apiVersion, metadata } of manifests) {
    assert(apiVersion && metadata.name, kind);
    if (kind !== "Namespace") assertEquals(metadata.namespace, "svc-training");
  }
  const rights = of("Role").rules!.flatMap(({ resources, verbs }) =>
    resources.map((resource) => `${resource}: ${verbs.join(" ")}`)
  );
  assertEquals(rights, [
    "jobs: create get delete",
    "jobs/status: create get delete",
    "pods: list",
    "pods/log: get",
    "secrets: create",
  ]);
  assertEquals(of("NetworkPolicy").spec!.podSelector.matchLabels, { app: "svc-training" });
  assertEquals(of("RoleBinding").subjects![0].name, of("ServiceAccount").metadata.name);
});

interface Manifest {
  readonly kind: string;
  readonly apiVersion: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly rules?: readonly { readonly resources: readonly string[]; readonly verbs: readonly string[] }[];
  readonly subjects?: readonly { readonly name: string }[];
  readonly spec?: { readonly podSelector: { readonly matchLabels: Readonly<Record<string, string>> } };
}
