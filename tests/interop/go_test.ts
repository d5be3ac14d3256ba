/**
 * The published Go client dials a machine with no option at all, as the examples of its SDK do, and over WebRTC alone:
 * through the machine's own signaling and through that of its control plane, there with its key and with the token that
 * the published command line exchanges it for.
 */

import { assertEquals, assertGreater, assertMatch, assertStringIncludes } from "@std/assert";
import { both, needingTest } from "../support/needing.ts";
import { selfSigned } from "../support/echo.ts";
import { startServer, writeConfig } from "../support/server.ts";
import { until } from "../support/until.ts";
import { withManagedMachine } from "../cloud/managed.ts";
import { goDialProgram, ownNames, run } from "./programs.ts";
import { auth, components, KEY } from "./wheel.ts";
import { svcCloud } from "../cloud/program.ts";
import { loopbackMulticast } from "../support/multicast.ts";

interface Seen {
  readonly resources: string[] | null;
  readonly services: number;
  readonly moved: number;
  readonly refused: string;
  readonly tunneled: string;
  readonly traceFiles: string[] | null;
  readonly traces: number;
  readonly captures: number;
  readonly overWebRTC: boolean;
}

const program = await goDialProgram();

needingTest(
  "the published Go client needs no option, whether the port has TLS or not",
  program,
  async (dial) => {
    const folder = await Deno.makeTempDir({ prefix: "svc-go-" });
    const { certPem, keyPem } = await selfSigned();
    const [cert, key] = [`${folder}/cert.pem`, `${folder}/key.pem`];
    await Deno.writeTextFile(cert, certPem);
    await Deno.writeTextFile(key, keyPem);
    const ports = [{}, { tls_cert_file: cert, tls_key_file: key }];
    for (const network of ports) {
      const config = await writeConfig({ components, network });
      const server = await startServer(config);
      try {
        await server.wrote("machine is running");
        const plain = ["-plain", "-host", new URL(server.url).host];
        const over = await seenBy(dial, plain, { SSL_CERT_FILE: cert });
        judge(over);
        assertEquals(over.overWebRTC, true);
        const direct = await seenBy(dial, [...plain, "-direct"], { SSL_CERT_FILE: cert });
        judge(direct);
        assertEquals(direct.overWebRTC, false);
        const withKey = [...plain, "-direct", "-key-id", KEY.id, "-key", KEY.key];
        const { refused } = await seenBy(dial, withKey, { SSL_CERT_FILE: cert });
        assertStringIncludes(refused, network === ports[0] ? "will not send credentials" : "");
      } finally {
        await server.stop();
        await Deno.remove(config);
      }
    }
    await Deno.remove(folder, { recursive: true });
  },
);

needingTest(
  "the published Go client dials a machine over WebRTC through the machine's own signaling",
  program,
  async (dial) => {
    const config = await writeConfig({ components, auth });
    const server = await startServer(config);
    try {
      await server.wrote("machine is running");
      const { host } = new URL(server.url);
      const key = (text: string) => ["-host", host, "-key-id", KEY.id, "-key", text];
      judge(await seenBy(dial, key(KEY.key)));
      assertStringIncludes((await seenBy(dial, key("another"))).refused, "invalid credentials");
      assertStringIncludes((await seenBy(dial, ["-host", host])).refused, "authentication required");
    } finally {
      await server.stop();
      await Deno.remove(config);
    }
  },
);

needingTest(
  "the published Go client dials a machine over WebRTC through its control plane",
  program,
  (dial) =>
    withManagedMachine({ components }, async ({ example: { ownerKey }, fqdn, cloud, server }) => {
      const signaling = new URL(cloud.url).host;
      const key = (text: string) => [
        ...["-host", fqdn, "-signaling", signaling],
        ...["-key-id", ownerKey.id, "-key", text],
      ];
      // The machine waits for calls a moment after its configuration is there.
      const first = await until(async () => {
        const seen = await seenBy(dial, key(ownerKey.key));
        return seen.refused === "" && seen;
      }, { found: () => server.output() });
      judge(first);
      judge(await seenBy(dial, [...key(ownerKey.key), "-external"]));
      // As the published runtime dials its control plane: TLS first, though this one has none.
      judge(await seenBy(dial, [...key(ownerKey.key), "-downgrade"]));
      assertStringIncludes((await seenBy(dial, key("another"))).refused, "invalid credentials");
      assertStringIncludes(
        (await seenBy(dial, [...key("another"), "-external"])).refused,
        "invalid credentials",
      );
      const elsewhere = ["-host", `nobody.${fqdn}`, ...key(ownerKey.key).slice(2)];
      assertStringIncludes(
        (await seenBy(dial, elsewhere)).refused,
        "this needs an API key that opens the machine",
      );
    }),
);

needingTest(
  "the published command line finds a machine by its name: by multicast DNS, and by svc-cloud hosts",
  await both(Promise.resolve(program), both(loopbackMulticast(), ownNames())),
  async ([dial, [, withNames]]) => {
    const domain = ["--machine-domain", "robots.example"];
    const network = { bind_address: "0.0.0.0:0", no_tls: true };
    await withManagedMachine({ components, network }, async (managed) => {
      const { example: { ownerKey }, fqdn, cloud, data, server, folder } = managed;
      assertMatch(fqdn, /^[a-z0-9-]+\.[a-z0-9]+\.robots\.example$/);
      const { host, port } = new URL(cloud.url);
      const key = ["-by-name", host, "-key-id", ownerKey.id, "-key", ownerKey.key];
      const near = await until(async () => {
        const seen = await seenBy(dial, ["-host", fqdn, ...key]);
        return seen.refused === "" && seen;
      }, { found: () => server.output() });
      judge(near);
      // Its own port as its published programs dial it, 443, a test cannot have.
      const hosts = `${folder}/hosts`;
      const printed = await svcCloud("hosts", "--address", "127.0.0.1", ...data);
      assertStringIncludes(printed, `127.0.0.1 ${fqdn}\n`);
      await Deno.writeTextFile(hosts, `127.0.0.1 localhost\n${printed}`);
      const [program, ...args] = withNames(hosts, [dial, "-host", `${fqdn}:${port}`, ...key]);
      const far = await seenBy(program, args);
      judge(far);
      assertEquals(far.overWebRTC, true);
    }, { cloudFlags: domain });
  },
);

needingTest(
  "the published command line's tunnel and traces work through a control plane",
  program,
  async (dial) => {
    const echo = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const serving = (async () => {
      for await (const connection of echo) connection.readable.pipeTo(connection.writable).catch(() => {});
    })();
    const { port } = echo.addr as Deno.NetAddr;
    const config = {
      components,
      services: [{ name: "shell", api: "rdk:service:shell" }],
      network: { bind_address: "localhost:0", traffic_tunnel_endpoints: [{ port }] },
      tracing: { enabled: true, disk: true },
    };
    try {
      await withManagedMachine(config, async ({ example: { ownerKey, partId }, fqdn, cloud, server }) => {
        const reached = ["-host", fqdn, "-signaling", new URL(cloud.url).host, "-external"];
        const shown = ["-key-id", ownerKey.id, "-key", ownerKey.key];
        const asked = (at: number) => [...reached, ...shown, "-part", partId, "-port", String(at)];
        // Spans are written every few seconds.
        let last: Seen | undefined;
        const seen = await until(async () => {
          last = await seenBy(dial, asked(port));
          return last.refused === "" && last.traces > 0 && last;
        }, { found: () => `${last?.refused}\n${server.output()}` });
        judge(seen);
        assertEquals(seen.tunneled, "through the machine");
        const names = seen.traceFiles!.map((path) => path.split("/").at(-1)).sort();
        assertEquals(names, ["traces", "traces.jsonl"]);
        assertGreater(seen.captures, 0);
        assertStringIncludes(
          (await seenBy(dial, asked(port + 1))).refused,
          "is not among the 1 of the machine",
        );
      });
    } finally {
      echo.close();
      await serving.catch(() => {});
    }
  },
);

function judge({ resources, services, moved, refused }: Seen): void {
  assertEquals(refused, "");
  assertEquals(["pulses", "wheel"].filter((name) => !resources?.includes(name)), []);
  assertGreater(services, 20);
  assertEquals(Math.round(moved * 10) / 10, 0.5);
}

async function seenBy(
  dial: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Seen> {
  const { code, stdout, stderr } = await run([dial, ...args], env);
  if (code !== 0) throw new Error(`${dial} failed: ${stderr}`);
  return JSON.parse(stdout);
}
