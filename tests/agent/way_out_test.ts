/**
 * The way of a device to its control plane in a network that lets only proxies out, with real proxies: trust in an
 * authority of its own, gRPC and HTTP through CONNECT and SOCKS5, and names that only the proxy knows.
 */

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { serveCloud, svcCloud } from "../cloud/program.ts";
import { run } from "../interop/programs.ts";
import { type Needed, needingTest } from "../support/needing.ts";
import { selfSigned } from "../support/echo.ts";
import { until } from "../support/until.ts";
import { freePort } from "../support/free_port.ts";

const CLIENT = new URL("./way_out_client.ts", import.meta.url).pathname;
const INSTALLER = new URL("../../install/install.sh", import.meta.url);
/** Known to the proxies alone: they resolve it by their own file of hosts. */
const NAME = "cloud.inside.test";

async function needs(): Promise<Needed<true>> {
  if (Deno.build.os !== "linux" || Deno.uid() !== 0) return { missing: "namespaces need root on Linux" };
  for (const program of ["tinyproxy", "microsocks", "unshare", "curl"]) {
    const { code } = await run(["sh", "-c", `command -v ${program}`]);
    if (code !== 0) return { missing: `there is no ${program} here` };
  }
  const { code } = await run(["unshare", "--mount", "true"]).catch(() => ({ code: -1 }));
  return code === 0 ? { found: true } : { missing: "the system makes no namespaces" };
}

/** Starts a proxy whose file of hosts knows the control plane; waits until it accepts connections. */
async function startProxy(folder: string, command: string, port: number): Promise<AsyncDisposable> {
  await Deno.writeTextFile(`${folder}/hosts`, `127.0.0.1 localhost ${NAME}\n`);
  const script = `mount --bind ${folder}/hosts /etc/hosts && exec ${command}`;
  const child = new Deno.Command("unshare", {
    args: ["--mount", "sh", "-c", script],
    stdout: "null",
    stderr: "null",
  }).spawn();
  await until(
    async () => {
      const connection = await Deno.connect({ hostname: "127.0.0.1", port }).catch(() => undefined);
      connection?.close();
      return connection !== undefined;
    },
    { found: () => `${command} accepts no connections` },
  );
  return {
    [Symbol.asyncDispose]: async () => {
      try {
        child.kill("SIGTERM");
      } catch {
        // It has ended already.
      }
      await child.status;
    },
  };
}

interface Saw {
  readonly problems: readonly string[];
  readonly grpc: string;
  readonly http: string;
}

async function ask(
  address: string,
  folder: string,
  env: Record<string, string> = {},
  lateAuthorities: readonly string[] = [],
): Promise<Saw> {
  const { DENO_DIR, HOME = "/root", PATH = "" } = Deno.env.toObject();
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", CLIENT, address, folder, ...lateAuthorities],
    clearEnv: true,
    env: { HOME, PATH, ...(DENO_DIR === undefined ? {} : { DENO_DIR }), ...env },
  }).output();
  const text = new TextDecoder().decode(stdout);
  assertEquals(code, 0, new TextDecoder().decode(stderr));
  return JSON.parse(text.trim().split("\n").at(-1)!);
}

function proxies(connectPort: number, socksPort: number, loginPort: number): Record<string, string>[] {
  return [
    { HTTPS_PROXY: `http://user:hunter2@127.0.0.1:${connectPort}` },
    { https_proxy: `http://user:hunter2@localhost:${connectPort}` },
    { ALL_PROXY: `socks5h://127.0.0.1:${socksPort}` },
    { SOCKS_PROXY: `127.0.0.1:${socksPort}` },
    { ALL_PROXY: `socks5h://user:hunter2@127.0.0.1:${loginPort}` },
  ];
}

const ANSWERED =
  /^invalid credentials: the [-a-z]+ \S+ is wrong, rotated, revoked, or of another control plane$/;
const UNTRUSTED = /UnknownIssuer|unable to|self-signed/i;

needingTest(
  "a device trusts the authority of its control plane, and reaches it through proxies",
  await needs(),
  async (_, t) => {
    const folder = await Deno.makeTempDir({ prefix: "svc-way-out-" });
    const files = async (name: string) => {
      await Deno.mkdir(`${folder}/${name}`);
      return `${folder}/${name}`;
    };
    await svcCloud("init", "--data", `${folder}/cloud`, "--json");
    const cloud = await serveCloud([
      ...["--data", `${folder}/cloud`, "--tls"],
      ...["--public-url", `https://${NAME}:1`, "--public-url", "https://localhost:1"],
    ]);
    const { port } = new URL(cloud.url);
    const [connectPort, socksPort, loginPort] = [freePort(), freePort(), freePort()];
    const settings =
      `Port ${connectPort}\nListen 127.0.0.1\nTimeout 60\nBasicAuth user hunter2\nMaxClients 20\n`;
    await Deno.writeTextFile(`${folder}/tinyproxy.conf`, settings);
    const local = `https://localhost:${port}`;
    const inside = `https://${NAME}:${port}`;
    const authority = await (await run(["curl", "-ksS", `${local}/ca.pem`])).stdout;
    try {
      await using _connect = await startProxy(
        folder,
        `tinyproxy -d -c ${folder}/tinyproxy.conf`,
        connectPort,
      );
      await using _socks = await startProxy(folder, `microsocks -i 127.0.0.1 -p ${socksPort}`, socksPort);
      await using _login = await startProxy(
        folder,
        `microsocks -i 127.0.0.1 -p ${loginPort} -u user -P hunter2`,
        loginPort,
      );

      await t.step("without its authority nothing of it is trusted", async () => {
        const { grpc, http } = await ask(local, await files("bare"));
        assertMatch(grpc, UNTRUSTED);
        assertMatch(http, UNTRUSTED);
      });

      await t.step(
        "SSL_CERT_FILE, SSL_CERT_DIR, the runtime's variable and the device's own file count",
        async () => {
          const own = await files("own");
          await Deno.writeTextFile(`${own}/svc-ca.pem`, authority);
          const [named, dir] = [`${folder}/ca.pem`, await files("dir")];
          await Deno.writeTextFile(named, authority);
          await Deno.writeTextFile(`${dir}/cloud.crt`, authority);
          for (
            const [place, env] of [
              [own, {}],
              [await files("a"), { SSL_CERT_FILE: named }],
              [await files("b"), {
                SSL_CERT_DIR: dir,
              }],
              [await files("c"), { SVC_CA_FILE: named }],
              [await files("d"), {
                DENO_CERT: named,
                SSL_CERT_DIR: await files("other"),
              }],
            ] as const
          ) {
            const { problems, grpc, http } = await ask(local, place, env);
            assertEquals([problems, http.slice(0, 4)], [[], "200 "], http);
            assertMatch(grpc, ANSWERED);
          }
          await Deno.writeTextFile(`${own}/svc-ca.pem`, "no certificate");
          const { problems, http } = await ask(local, own);
          assertStringIncludes(problems.join(), "svc-ca.pem are not trusted: found no certificate");
          assertMatch(http, UNTRUSTED);
        },
      );

      await t.step("an authority that comes while the program runs is trusted by gRPC and HTTP", async () => {
        const late = `${folder}/late.pem`;
        await Deno.writeTextFile(late, authority);
        const first = await ask(local, await files("late"), {}, [late]);
        assertEquals(first.http.slice(0, 4), "200 ");
        assertMatch(first.grpc, ANSWERED);

        // The file is there already, with another authority.
        const place = await files("renewed");
        await Deno.writeTextFile(`${place}/svc-ca.pem`, (await selfSigned()).certPem);
        const second = await ask(local, place, {}, [late]);
        assertEquals(second.http.slice(0, 4), "200 ");
        assertMatch(second.grpc, ANSWERED);
      });

      await t.step("gRPC and HTTP go through each kind of proxy, which knows the name", async () => {
        const place = await files("proxied");
        await Deno.writeTextFile(`${place}/svc-ca.pem`, authority);
        for (
          const env of proxies(connectPort, socksPort, loginPort)
        ) {
          const { grpc, http } = await ask(inside, place, env);
          assertMatch(grpc, ANSWERED, JSON.stringify(env));
          assertEquals(http.slice(0, 4), "200 ", `${JSON.stringify(env)} ${http}`);
        }
      });

      await t.step(
        "a proxy that refuses is named without its password; NO_PROXY goes around it",
        async () => {
          const place = `${folder}/proxied`;
          for (
            const [env, output] of [
              [{ HTTPS_PROXY: `http://user:wrong-secret@127.0.0.1:${connectPort}` }, /refuses the user/],
              [{ HTTPS_PROXY: `http://127.0.0.1:${connectPort}` }, /wants a user and a password/],
              [{ ALL_PROXY: `socks5://user:wrong-secret@127.0.0.1:${loginPort}` }, /refuses the user|ended/],
              [{ HTTPS_PROXY: "https://user:wrong-secret@127.0.0.1:1" }, /HTTPS_PROXY is unusable/],
            ] as const
          ) {
            const { grpc } = await ask(inside, place, env);
            assertMatch(grpc, output);
            assertEquals(grpc.includes("wrong-secret"), false, grpc);
          }
          // This computer needs no proxy, and neither does a host that the list names.
          const broken = { HTTPS_PROXY: "http://127.0.0.1:1" };
          assertMatch((await ask(local, place, broken)).grpc, ANSWERED);
        },
      );

      await t.step(
        "the installer pins the authority that it was served with, and keeps the proxies",
        async () => {
          const script = await (await run(["curl", "-fksS", `${local}/install.sh`])).stdout;
          assertStringIncludes(script, authority.trim());
          const pinned = async (name: string, env: Record<string, string>, text = script, more = "true") => {
            const place = await files(name);
            const parts = text.replace(/\nmain "\$@"\s*$/, "\n") +
              `folder=${place} authorities=${place}/ca environment=${place}/env root=$served_from\n` +
              `use_proxies; use_authorities\n${more}\nkeep_authorities; keep_proxies\n`;
            const { code, stderr } = await new Deno.Command("/bin/sh", { args: ["-c", parts], env }).output();
            const read = (file: string) => Deno.readTextFile(`${place}/${file}`).catch(() => "");
            return {
              code,
              output: new TextDecoder().decode(stderr),
              ca: await read("ca"),
              env: await read("env"),
            };
          };
          const get = `get ${local}/ca.pem $folder/got`;
          const first = await pinned(
            "first",
            { SOCKS_PROXY: "127.0.0.1:9", NO_PROXY: "localhost" },
            script,
            get,
          );
          assertEquals([first.code, first.ca.trim(), first.env], [
            0,
            authority.trim(),
            "SOCKS_PROXY=127.0.0.1:9\nNO_PROXY=localhost\n",
          ], first.output);
          assertEquals((await Deno.stat(`${folder}/first/env`)).mode! & 0o777, 0o600);
          // Of a control plane with a certificate that everybody trusts, and with a given authority.
          const plain = (await Deno.readTextFile(INSTALLER)).replace("'@ROOT_URL@'", `'${local}'`);
          assertEquals((await pinned("plain", {}, plain)).ca, "");
          assertEquals(
            (await pinned("given", { SVC_CA_FILE: `${folder}/ca.pem` }, plain, get)).ca,
            authority,
          );
          const wrong = await pinned("wrong", { SVC_CA_FILE: CLIENT }, plain);
          assertEquals([wrong.code, wrong.ca], [1, ""]);
          assertStringIncludes(wrong.output, "SVC_CA_FILE");
          const blanks = "localhost, .factory.example,\t10.0.0.0/8 \n";
          const listed = await pinned("listed", { SOCKS_PROXY: "127.0.0.1:9", NO_PROXY: blanks }, plain);
          assertEquals(listed.env.split("\n")[1], "NO_PROXY=localhost,.factory.example,10.0.0.0/8");
          const evil = await pinned("evil", { HTTPS_PROXY: "http://p\nLD_PRELOAD=/tmp/x.so" }, plain);
          assertEquals([evil.code, evil.env], [1, ""]);
        },
      );
    } finally {
      await cloud.stop();
      await Deno.remove(folder, { recursive: true });
    }
  },
);
