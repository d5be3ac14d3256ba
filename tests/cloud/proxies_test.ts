/**
 * A control plane behind nginx and Caddy, with the very blocks of docs/operating.md: calls, streams, pages and the
 * address of the caller go through.
 */

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { AppService } from "../../proto/gen/app_pb.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { Metadata } from "../../lib/wire/rpc/metadata.ts";
import { AuthService } from "../../proto/gen/auth_pb.ts";
import { blocks } from "../docs/pages.ts";
import { needingTest } from "../support/needing.ts";
import { startNginx } from "../support/nginx.ts";
import { programHere } from "../support/programs_here.ts";
import { until } from "../support/until.ts";
import { type CloudProcess, type Example, serveCloud, svcCloud } from "./program.ts";
import { freePort } from "../support/free_port.ts";

/** Fixed by the operating system, so that two addresses of callers exist on one computer. */
const CALLER = "127.0.0.2";

async function block(language: string): Promise<string> {
  const found = (await blocks()).filter((one) =>
    one.page === "docs/operating.md" && one.language === language
  );
  assertEquals(found.length, 1);
  return found[0].text;
}

async function run(command: string, ...args: string[]): Promise<string> {
  const { stdout, stderr } = await new Deno.Command(command, { args }).output();
  return new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
}

/** Runs `use` with the address of a control plane that serves behind a proxy. */
async function behind(
  start: (folder: string, cloud: string, port: number) => Promise<Deno.ChildProcess>,
  use: (bench: { url: string; cloud: CloudProcess; example: Example; ca: string }) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-proxy-" });
  const example: Example = JSON.parse(await svcCloud("init", "--data", `${folder}/data`, "--json"));
  const port = freePort();
  const url = `https://localhost:${port}`;
  const flags = ["--data", `${folder}/data`, "--trusted-proxy", "127.0.0.1", "--public-url", url];
  const cloud = await serveCloud(flags);
  const names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"];
  const ca = join(folder, "cloud.pem");
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  await run(
    "openssl",
    "req",
    "-x509",
    ...key,
    "-days",
    "2",
    ...names,
    "-keyout",
    join(folder, "cloud.key"),
    "-out",
    ca,
  );
  const proxy = await start(folder, new URL(cloud.url).host, port);
  try {
    await use({ url, cloud, example, ca });
  } finally {
    proxy.kill("SIGTERM");
    await proxy.status;
    await cloud.stop();
    await Deno.remove(folder, { recursive: true });
  }
}

async function playThrough({ url, cloud, example, ca }: Parameters<Parameters<typeof behind>[1]>[0]) {
  const curl = (...args: string[]) => run("curl", "--silent", "--show-error", "--cacert", ca, ...args);
  await until(async () => (await curl(`${url}/healthz`)).startsWith("ok"), { found: cloud.output });
  for (const version of ["--http1.1", "--http2"]) {
    assertEquals(await curl(version, `${url}/readyz`), "ok\n");
    assertStringIncludes(await curl(version, `${url}/install.sh`), "svc-agent");
  }
  const path = `${url}/viam.app.v1.AppService/ListOrganizations`;
  await Deno.writeFile(`${ca}.call`, new Uint8Array(5));
  const web = [
    "--header",
    "content-type: application/grpc-web+proto",
    "--data-binary",
    `@${ca}.call`,
    "--include",
  ];
  assertStringIncludes((await curl("--http1.1", ...web, path)).toLowerCase(), "grpc-status: 16");

  const tls = { ca: await Deno.readTextFile(ca) };
  const channel = connectGrpc(new URL(url).host, { clock: new SystemClock(), tls });
  try {
    const { id: entity, key: payload } = example.ownerKey;
    const asked = { entity, credentials: { type: "api-key", payload } };
    const { accessToken } = await client(AuthService, channel).authenticate(asked);
    const header = Metadata.from([["authorization", `Bearer ${accessToken}`]]);
    const { organizations } = await client(AppService, channel).listOrganizations({}, { header });
    assertEquals(organizations.map(({ id }) => id), [example.organizationId]);
  } finally {
    channel.close();
  }

  await signInThrough(url, cloud, ca);

  // Wrong keys count for the caller, whose address the proxy tells; what the caller itself writes counts for nothing.
  const wrong = [
    "--header",
    `key_id: ${example.ownerKey.id}`,
    "--header",
    "key: wrong",
    "--header",
    "x-forwarded-for: 203.0.113.9",
  ];
  await curl(
    "--interface",
    CALLER,
    ...wrong,
    "--output",
    "/dev/null",
    `${url}/api/json1/config?client=true&id=${example.partId}&n=[1-40]`,
  );
  await until(() => cloud.output().includes("the caller is slowed down"), { found: cloud.output });
  assertStringIncludes(cloud.output(), `"address":"${CALLER}"`);
}

/** A person's session through the proxy: its cookie is the host's own, and one of another name opens nothing. */
async function signInThrough(url: string, cloud: CloudProcess, ca: string): Promise<void> {
  const data = ["--data", join(ca, "../data")];
  const invited = await svcCloud("account", "invite", "ann@example.com", "--json", ...data);
  const link = JSON.parse(invited).link.split("/").at(-1);
  const ask = async (page: string, body: object, ...headers: string[]) => {
    const answer = await run(
      "curl",
      ...["--silent", "--show-error", "--include", "--cacert", ca],
      ...["content-type: application/json", ...headers].flatMap((one) => ["--header", one]),
      ...["--data", JSON.stringify(body), `${url}/account/${page}`],
    );
    const [, cookie = ""] = /^set-cookie: (.*?)\r?$/im.exec(answer) ?? [];
    return { status: Number(/^HTTP\/\S+ (\d+)/.exec(answer)?.[1]), cookie };
  };
  const password = "correct horse battery staple";
  for (const origin of [[`origin: ${url}`, "sec-fetch-site: same-origin"], []]) {
    const [page, body] = origin.length > 0
      ? ["accept", { link, password }]
      : ["sign-in", { email: "ann@example.com", password }];
    const { status, cookie } = await ask(page, body, ...origin);
    assertEquals(status, 200, cloud.output());
    assertMatch(cookie, /^__Host-svc-session=[^;]+; Path=\/; HttpOnly; SameSite=Strict; Secure$/);
    const [pair] = cookie.split(";");
    assertEquals((await ask("token", {}, `cookie: ${pair}`, ...origin)).status, 200);
    // As a subdomain, or somebody on the way, plants a session of their own.
    const planted = `cookie: ${pair.replace("__Host-", "")}`;
    assertEquals((await ask("token", {}, planted, ...origin)).status, 401);
  }
}

needingTest(
  "a control plane works behind nginx with the documented block",
  programHere("nginx"),
  async () => {
    const text = await block("nginx");
    await behind(async (folder, cloud, port) => {
      const server = text.replace("listen 443", `listen 127.0.0.1:${port}`).replaceAll("/etc/ssl", folder)
        .replace("cloud.example.com", "localhost").replaceAll("127.0.0.1:8090", cloud);
      return await startNginx(folder, server);
    }, playThrough);
  },
);

needingTest(
  "a silent nginx on this computer: no link and no installer names the way from nginx to the control plane",
  programHere("nginx"),
  async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-proxy-" });
    const cloud = await serveCloud(["--data", `${folder}/data`]);
    const upstream = new URL(cloud.url).host;
    const port = freePort();
    const server = `server { listen 127.0.0.1:${port} http2; location / { grpc_pass grpc://${upstream}; } }
      server { listen 127.0.0.2:${port}; location / { proxy_pass http://${upstream}; } }`;
    const nginx = await startNginx(folder, server);
    const get = (address: string, ...args: string[]) =>
      run("curl", "--silent", ...args, `${address}/install.sh`);
    try {
      const direct = await get(cloud.url);
      assertStringIncludes(direct, "#!/bin/sh");
      const refused = await until(async () => await get(`http://127.0.0.2:${port}`) || undefined, {
        found: cloud.output,
      });
      const through = await get(`http://127.0.0.1:${port}`, "--http2-prior-knowledge");
      for (const answer of [refused, through]) {
        assertStringIncludes(answer, "--public-url");
        assertEquals([answer.includes(upstream), answer.includes("#!/bin/sh")], [false, false]);
      }
    } finally {
      nginx.kill("SIGTERM");
      await nginx.status;
      await cloud.stop();
      await Deno.remove(folder, { recursive: true });
    }
  },
);

needingTest(
  "a control plane works behind Caddy with the documented block",
  programHere("caddy"),
  async () => {
    const text = await block("caddy");
    await behind(async (folder, cloud, port) => {
      const site = text.replace(
        "cloud.example.com {",
        `https://localhost:${port} {\n  bind 127.0.0.1\n  tls ${folder}/cloud.pem ${folder}/cloud.key`,
      )
        .replaceAll("127.0.0.1:8090", cloud);
      await Deno.writeTextFile(
        `${folder}/Caddyfile`,
        `{\n  admin off\n  auto_https off\n  log {\n    level ERROR\n  }\n}\n${site}`,
      );
      const args = ["run", "--config", `${folder}/Caddyfile`, "--adapter", "caddyfile"];
      return new Deno.Command("caddy", { args, env: { HOME: folder }, stderr: "null" }).spawn();
    }, playThrough);
  },
);
