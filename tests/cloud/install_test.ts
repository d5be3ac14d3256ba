/**
 * The control plane's answers to an installer on a new device.
 */

import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { parseCredentials } from "../../lib/agent/settings/credentials.ts";
import { nodeFolder } from "../interop/programs.ts";
import { linuxProgram } from "../support/linux_program.ts";
import { type Example, serveCloud, svcCloud } from "./program.ts";

Deno.test("the script contains the address that served it; only the part's key gets its credentials", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
  const example: Example = JSON.parse(await svcCloud("init", "--data", folder, "--json"));
  const cloud = await serveCloud(["--data", folder]);
  try {
    const script = await (await fetch(`${cloud.url}/install.sh`)).text();
    assert(script.includes(`served_from=${cloud.url}\n`), script.slice(0, 1500));
    assertEquals((await (await fetch(`${cloud.url}/install.ps1`)).text()).includes("@ROOT_URL@"), false);

    const { api_key: { id, key } } = example.config.cloud;
    const ask = (headers: Record<string, string>, part = example.partId) =>
      fetch(`${cloud.url}/api/json1/config?client=true&id=${part}`, { headers });
    const answer = await ask({ key_id: id, key });
    const credentials = parseCredentials(new Uint8Array(await answer.arrayBuffer()), "answer");
    assertEquals(credentials.appAddress, cloud.url);
    assertEquals([credentials.id, credentials.login.entity], [example.partId, id]);
    assertEquals(credentials.login.payload.reveal(), key);
    for (
      const [headers, part, status] of [[{}, undefined, 401], [{ key_id: id, key }, "other", 403]] as const
    ) {
      const refused = await ask(headers, part);
      assertEquals(refused.status, status);
      await refused.body?.cancel();
    }
  } finally {
    await cloud.stop();
    await Deno.remove(folder, { recursive: true });
  }
});

/** A GET with a Host header that no client library would send. */
async function getAs(url: string, host: string, path = "/install.sh", more: string[] = []): Promise<string> {
  const { hostname, port } = new URL(url);
  const connection = await Deno.connect({ hostname, port: Number(port) });
  try {
    const lines = [`GET ${path} HTTP/1.1`, `Host: ${host}`, "Connection: close", ...more];
    await connection.write(new TextEncoder().encode(`${lines.join("\r\n")}\r\n\r\n`));
    return await new Response(connection.readable).text();
  } catch (error) {
    connection.close();
    throw error;
  }
}

/** The danger of running an answer in a shell: all of it is in comments, or in one quoted word. */
const HOSTS = [
  "$(touch /tmp/pwned)",
  "`id`",
  "a';id;'",
  'a";id;"',
  "a;id",
  "a|id",
  "evil.example",
  "a b",
  "x@y",
];

Deno.test("no Host header gets into a script", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
  const cloud = await serveCloud(["--data", folder]);
  try {
    for (const host of HOSTS) {
      for (const path of ["/install.sh", "/install.ps1"]) {
        const answer = await getAs(cloud.url, host, path);
        const [head, body = ""] = answer.split("\r\n\r\n");
        assertMatch(head, /^HTTP\/1.1 4(21|00) /, `${host}: ${answer.slice(0, 200)}`);
        assertEquals(body.includes(host), false, body);
        assertEquals(body.split("\n").filter((line) => line !== "" && !line.startsWith("# ")), []);
        if (head.includes(" 421 ")) assertMatch(body, /--public-url/);
      }
    }
    const { host } = new URL(cloud.url);
    const forwarded = ["X-Forwarded-Host: $(id)", "X-Forwarded-Proto: $(id)", 'Forwarded: host="$(id)"'];
    const answer = await getAs(cloud.url, host, "/install.sh?root=$(id)&`id`", forwarded);
    assertMatch(answer, /^HTTP\/1.1 200 /);
    assertEquals([answer.includes("$(id)"), answer.includes("`id`")], [false, false]);
    assert(answer.includes(`served_from=${cloud.url}\n`));
    // Two headers: neither the second one nor both together.
    const twice = await getAs(cloud.url, host, "/install.sh", ["Host: $(id)"]);
    assertEquals(twice.includes("$(id)"), false);
  } finally {
    await cloud.stop();
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("pages, commands and machine files use the public address", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
  const [main, other] = ["https://cloud.example.com", "http://10.0.0.5:8090"];
  const data = ["--data", folder];
  const example: Example & { url: string } = JSON.parse(
    await svcCloud("init", ...data, "--json", "--public-url", `${main}/`),
  );
  assertEquals([example.url, appAddress(example)], [main, main]);
  const create = async (name: string, ...flags: string[]) =>
    appAddress(JSON.parse(await svcCloud("machine", "create", name, ...data, "--json", ...flags)));
  assertEquals(await create("before"), main);
  const cloud = await serveCloud([...data, "--public-url", main, "--public-url", other]);
  try {
    for (const host of ["evil.example", "$(id)", "cloud.example.com"]) {
      const answer = await getAs(cloud.url, host);
      assertEquals([answer.includes(`served_from=${main}\n`), answer.includes("evil")], [true, false]);
    }
    assert((await getAs(cloud.url, "10.0.0.5:8090")).includes(`served_from=${other}\n`));
    assertEquals(await create("meanwhile"), main);
    assertEquals(await create("told", "--address", "http://elsewhere:1"), "http://elsewhere:1");
  } finally {
    await cloud.stop();
    await Deno.remove(folder, { recursive: true });
  }
  await assertRejects(() => svcCloud("init", ...data, "--public-url", "http://$(id)"), Error, "--public-url");
});

Deno.test("init, while a control plane serves in the folder, prints the address that it serves on", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
  const data = ["--data", folder];
  const cloud = await serveCloud(data);
  try {
    const example: Example & { url: string } = JSON.parse(await svcCloud("init", ...data, "--json"));
    assertEquals([example.url, appAddress(example)], [cloud.url, cloud.url]);
  } finally {
    await cloud.stop();
    await Deno.remove(folder, { recursive: true });
  }
});

function appAddress({ config: { cloud } }: Pick<Example, "config">): string {
  return (cloud as unknown as { app_address: string }).app_address;
}

/** Records its arguments, then follows them. */
const NOTING = (program: string, file: string) =>
  `#!/bin/sh\necho "$0" "$@" >>${file}\nexec ${program} "$@"\n`;

for (const [name, program] of [["curl", "/usr/bin/curl"], ["wget", "/usr/bin/wget"]]) {
  const there = await Deno.stat(program).then(() => true, () => false);
  Deno.test({
    name: `install.sh never passes the API key as an argument of ${name}`,
    // Linux alone has this script; not every computer has both programs.
    ignore: Deno.build.os !== "linux" || !there,
    fn: async () => {
      const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
      const example: Example = JSON.parse(await svcCloud("init", "--data", folder, "--json"));
      const cloud = await serveCloud(["--data", folder]);
      try {
        const { api_key: { id, key } } = example.config.cloud;
        const [bin, seen] = [`${folder}/bin`, `${folder}/seen`];
        await Deno.mkdir(bin);
        await Deno.writeTextFile(`${bin}/${name}`, NOTING(program, seen), { mode: 0o755 });
        for (const tool of ["cat", "cp", "grep", "mv", "rm", "sync"]) {
          await Deno.symlink(`/usr/bin/${tool}`, `${bin}/${tool}`);
        }
        const script = await (await fetch(`${cloud.url}/install.sh`)).text();
        const run = async (secret: string) => {
          // All but the last line, which does everything.
          const parts = script.replace(/\nmain "\$@"\s*$/, "\n") +
            `folder=${folder} credentials=${folder}/svc.json\nfetch_credentials\n`;
          const env = {
            PATH: bin,
            SVC_API_KEY_ID: id,
            SVC_API_KEY: secret,
            SVC_PART_ID: example.partId,
            FORCE: "1",
          };
          const options = { args: ["-c", parts], clearEnv: true, env };
          const { code, stderr } = await new Deno.Command("/bin/sh", options).output();
          return { code, errors: new TextDecoder().decode(stderr) };
        };
        const { code, errors } = await run(key);
        assertEquals(code, 0, errors);
        assertEquals(JSON.parse(await Deno.readTextFile(`${folder}/svc.json`)).cloud.app_address, cloud.url);
        const words = await Deno.readTextFile(seen);
        assert(words.includes("/api/json1/config"), words);
        const asked = words.replaceAll(/^.* --version\n/gm, "");
        assertEquals([words.includes(key), words.includes(id)], [false, false], words);
        for (const file of ["headers", "svc.json"]) {
          assertEquals((await Deno.stat(`${folder}/${file}`)).mode! & 0o777, 0o600, file);
        }
        for (const bad of ['a"\noutput = "/tmp/x', "a\\", "a'b"]) {
          assertMatch((await run(bad)).errors, /contains a character that no key has/);
        }
        // A question about wget's version asks nothing of the control plane.
        assertEquals((await Deno.readTextFile(seen)).replaceAll(/^.* --version\n/gm, ""), asked);
      } finally {
        await cloud.stop();
        await Deno.remove(folder, { recursive: true });
      }
    },
  });
}

Deno.test({
  name: "install.sh asks for curl or GNU wget where there is BusyBox's wget, or none",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-install-" });
    const script = await Deno.readTextFile(new URL("../../install/install.sh", import.meta.url));
    // All but the last line, which does everything.
    const parts = script.replace(/\nmain "\$@"\s*$/, "\n") +
      `folder=${folder}\nget http://127.0.0.1:1/x ${folder}/file "key: secret"\n`;
    const run = async (wget?: string) => {
      const bin = await Deno.makeTempDir({ dir: folder });
      for (const tool of ["grep", "rm"]) await Deno.symlink(`/usr/bin/${tool}`, `${bin}/${tool}`);
      if (wget !== undefined) {
        await Deno.writeTextFile(`${bin}/wget`, `#!/bin/sh\n${wget}\n`, { mode: 0o755 });
      }
      const env = { PATH: bin, SVC_ROOT_URL: "http://127.0.0.1:1" };
      const { code, stderr } = await new Deno.Command("/bin/sh", { args: ["-c", parts], clearEnv: true, env })
        .output();
      return [code, new TextDecoder().decode(stderr)] as const;
    };
    try {
      const missing = "curl and GNU wget are both missing; install one of them";
      const busybox = `echo "wget: unrecognized option '--version'" >&2
        echo "BusyBox v1.36.1 () multi-call binary." >&2
        exit 1`;
      const toybox = `echo "toybox 0.8.11"`;
      for (const wget of [busybox, toybox, undefined]) {
        const [code, output] = await run(wget);
        assertEquals([code, output.includes(missing)], [1, true], output);
      }
      for (const name of ["GNU Wget 1.21.4 built on linux-gnu.", "GNU Wget2 2.1.0 - multithreaded"]) {
        assertEquals((await run(`[ "$1" != --version ] || { echo "${name}"; exit; }; exit 7`))[0], 7);
      }
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});

for (const program of ["curl", "wget"]) {
  const there = await Deno.stat(`/usr/bin/${program}`).then(() => true, () => false);
  Deno.test({
    name: `install.sh tries a download again that stands still, with ${program}`,
    ignore: Deno.build.os !== "linux" || !there,
    fn: async () => {
      const folder = await Deno.makeTempDir({ prefix: "svc-install-" });
      let asked = 0;
      // The first answer stops in the middle, and its connection stays.
      await using server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, () => {
        const stands = asked++ === 0;
        const body = new ReadableStream<Uint8Array>({
          start: (stream) => {
            stream.enqueue(new TextEncoder().encode(stands ? "wh" : "whole"));
            if (!stands) stream.close();
          },
        });
        return new Response(body);
      });
      const script = await Deno.readTextFile(new URL("../../install/install.sh", import.meta.url));
      const bin = `${folder}/bin`;
      await Deno.mkdir(bin);
      for (const tool of [program, "grep", "rm"]) await Deno.symlink(`/usr/bin/${tool}`, `${bin}/${tool}`);
      // All but the last line, which does everything.
      const parts = script.replace(/\nmain "\$@"\s*$/, "\n") +
        `folder=${folder} stall_s=1\nget http://127.0.0.1:${server.addr.port}/ ${folder}/file\n`;
      const env = { PATH: bin, SVC_ROOT_URL: "http://127.0.0.1:1" };
      try {
        const shell = new Deno.Command("/bin/sh", { args: ["-c", parts], clearEnv: true, env });
        const { code, stderr } = await shell.output();
        assertEquals([code, asked], [0, 2], new TextDecoder().decode(stderr));
        assertEquals(await Deno.readTextFile(`${folder}/file`), "whole");
      } finally {
        await Deno.remove(folder, { recursive: true });
      }
    },
  });
}

Deno.test({
  name: "install.sh ends if the control plane has no keys of releases, unless SVC_UNSIGNED says to go on",
  ignore: Deno.build.os !== "linux" || !await Deno.stat("/usr/bin/curl").then(() => true, () => false),
  fn: async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-install-" });
    const answers: Record<string, string> = {
      "/good": '{"keys":[{"public_key":"a"}]}',
      "/empty": '{"keys":[]}',
    };
    await using server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, ({ url }) => {
      const answer = answers[new URL(url).pathname.replace("/releases/keys.json", "")];
      return new Response(answer ?? "no", { status: answer ? 200 : 404 });
    });
    const script = await Deno.readTextFile(new URL("../../install/install.sh", import.meta.url));
    const keys = `${folder}/etc/release_keys.json`;
    const pin = async (path: string, env: Record<string, string> = {}) => {
      // All but the last line, which does everything.
      const parts = script.replace(/\nmain "\$@"\s*$/, "\n") + `folder=${folder} keys=${keys}\npin_keys\n`;
      const given = { ...env, SVC_ROOT_URL: `http://127.0.0.1:${server.addr.port}${path}` };
      const { code, stderr } = await new Deno.Command("/bin/sh", { args: ["-c", parts], env: given })
        .output();
      return [code, new TextDecoder().decode(stderr)] as const;
    };
    const pinned = () => Deno.readTextFile(keys).catch(() => undefined);
    try {
      for (const path of ["/missing", "/empty"]) {
        const [code, output] = await pin(path);
        assertEquals([code, await pinned()], [1, undefined], output);
        assertMatch(
          output,
          /no keys of releases at .*keys\.json: try again; to pin keys, write .* SVC_UNSIGNED=1/,
        );
        const [unsigned, warned] = await pin(path, { SVC_UNSIGNED: "1" });
        assertEquals([unsigned, await pinned()], [0, undefined], warned);
        assertMatch(warned, /WARNING: .*checks no signatures .*; to pin keys, write /);
      }
      assertEquals(await pin("/good"), [0, ""]);
      assertEquals(await pinned(), answers["/good"]);
      // Keys that are there stay.
      assertEquals(await pin("/missing"), [0, ""]);
      assertEquals(await pinned(), answers["/good"]);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});

Deno.test({
  name: "install.sh takes program and signature of one version while releases are published and replaced",
  ignore: Deno.build.os !== "linux" || !await Deno.stat("/usr/bin/curl").then(() => true, () => false),
  fn: async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-install-" });
    const data = ["--data", `${folder}/data`];
    const programOf = (mark: number) => {
      const bytes = linuxProgram(100);
      bytes[99] = mark;
      return bytes;
    };
    const publish = async (version: string, mark: number) => {
      await Deno.writeFile(`${folder}/svc-agent`, programOf(mark));
      await svcCloud(
        "release",
        "publish",
        "svc-agent",
        version,
        `${folder}/svc-agent`,
        "--channel",
        "stable",
        ...data,
      );
    };
    /** Run once, before the next request of each kind is answered. */
    const before: { signature?: () => Promise<unknown>; program?: () => Promise<unknown> } = {};
    const cloud = await serveCloud(data);
    await using front = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async ({ url }) => {
      const { pathname } = new URL(url);
      const kind = pathname.endsWith(".sig") ? "signature" : "program";
      const work = before[kind];
      delete before[kind];
      await work?.();
      return await fetch(`${cloud.url}${pathname}`);
    });
    const script = await Deno.readTextFile(new URL("../../install/install.sh", import.meta.url));
    const fetched = async () => {
      const parts = `${script.replace(/\nmain "\$@"\s*$/, "\n")}folder=${folder}/got platform=linux-amd64\n` +
        `mkdir -p $folder\nfetch_signed\necho "$version"\n`;
      const env = { SVC_ROOT_URL: `http://127.0.0.1:${front.addr.port}` };
      const { code, stdout, stderr } = await new Deno.Command("/bin/sh", { args: ["-c", parts], env })
        .output();
      const output = new TextDecoder();
      assertEquals(code, 0, output.decode(stderr));
      return [output.decode(stdout).trim(), (await Deno.readFile(`${folder}/got/svc-agent`))[99]];
    };
    try {
      await publish("1.0.0", 1);
      // A new version between signature and program: the signed one comes; between runs the new one.
      before.program = () => publish("1.1.0", 2);
      assertEquals(await fetched(), ["1.0.0", 1]);
      before.signature = () => publish("1.2.0", 3);
      assertEquals(await fetched(), ["1.2.0", 3]);
      // The same version with other bytes: the signature is asked for again.
      before.program = async () => {
        await svcCloud("release", "delete", "svc-agent", "1.2.0", ...data);
        await publish("1.2.0", 4);
      };
      assertEquals(await fetched(), ["1.2.0", 4]);
    } finally {
      await cloud.stop();
      await Deno.remove(folder, { recursive: true });
    }
  },
});

Deno.test({
  name: "install.sh gives the key to the control plane's own address alone",
  ignore: Deno.build.os !== "linux" || !await Deno.stat("/usr/bin/curl").then(() => true, () => false),
  fn: async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-install-" });
    const heard: string[] = [];
    await using other = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, ({ headers }) => {
      heard.push(headers.get("key") ?? "no key");
      return new Response("content");
    });
    await using first = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, ({ headers }) => {
      heard.push(headers.get("key") ?? "no key");
      return new Response("", { status: 302, headers: { location: `http://127.0.0.1:${other.addr.port}/` } });
    });
    const script = await Deno.readTextFile(new URL("../../install/install.sh", import.meta.url));
    const get = async (...headers: string[]) => {
      const url = `http://127.0.0.1:${first.addr.port}/`;
      const parts = script.replace(/\nmain "\$@"\s*$/, "\n") +
        `folder=${folder}\nget ${url} ${folder}/got ${headers.map((one) => `'${one}'`).join(" ")}\n`;
      return (await new Deno.Command("/bin/sh", { args: ["-c", parts], stderr: "null" }).output()).code;
    };
    try {
      assertEquals([await get("key: sesame") === 0, heard], [false, ["sesame"]]);
      // Without a key a download may lead elsewhere.
      assertEquals([await get(), heard.slice(1)], [0, ["no key", "no key"]]);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});

Deno.test("install.ps1 ends if the control plane has no keys of releases, unless SVC_UNSIGNED says to go on", async () => {
  const script = await Deno.readTextFile(new URL("../../install/install.ps1", import.meta.url));
  assertMatch(script, /match '"public_key"'.*\s+.*\s+\} elseif \(\$env:SVC_UNSIGNED -eq "1"\) \{\s/);
  assertMatch(script, /Write-Warning "\$\{missing\}: .*\s+\} else \{\s+Fail "\$\{missing\}: /);
});

Deno.test("install.ps1 restricts access to the credentials file before it writes the key", async () => {
  const script = await Deno.readTextFile(new URL("../../install/install.ps1", import.meta.url));
  const [closed, written] = [script.indexOf("icacls "), script.indexOf('WriteAllText("$credentials.new"')];
  assert(0 < closed && closed < written, `${closed} ${written}`);
});

Deno.test("install.ps1 takes all rights of other users to its folder, and what they put there, before it writes", async () => {
  const script = await Deno.readTextFile(new URL("../../install/install.ps1", import.meta.url));
  const steps = [
    "if (Test-Link (Get-Item -Force -LiteralPath $folder)) { Fail",
    "$rights = Get-Acl -LiteralPath $folder",
    '"/setowner", $administrators',
    '"/reset"',
    '"/inheritance:r", "/grant:r"',
    "Get-ChildItem -Force -Recurse -LiteralPath $folder",
    "if ($trusted -notcontains $owner) {",
    'New-Item -ItemType Directory -Force -Path "$base\\bin"',
    "Test-Path $credentials",
    "Test-Path $keys",
  ];
  const places = steps.map((step) => script.indexOf(step));
  assertEquals(places, places.toSorted((a, b) => a - b));
  assert(places.every((place) => place > 0), `${places}`);
});

Deno.test("install.sh and install.ps1 are free of syntax errors", async () => {
  const script = new URL("../../install/install.sh", import.meta.url).pathname;
  const { code } = await new Deno.Command("sh", { args: ["-n", script] }).output();
  assertEquals(code, 0);
  const powershell = await Deno.readTextFile(new URL("../../install/install.ps1", import.meta.url));
  assertEquals(await powershellErrors(powershell), "");
  assertMatch(await powershellErrors(powershell.replace("-ne 0) {", "-ne 0 {")), /^\d+: /);
});

/** What is no PowerShell in a script. */
async function powershellErrors(text: string): Promise<string> {
  const file = await Deno.makeTempFile({ suffix: ".ps1" });
  try {
    await Deno.writeTextFile(file, text);
    const program = `${await nodeFolder()}/powershell_errors.mjs`;
    // The better compiler would take 20 seconds for the grammar.
    const args = ["--liftoff-only", program, file];
    const { code, stdout, stderr } = await new Deno.Command("node", { args }).output();
    assertEquals(code, 0, new TextDecoder().decode(stderr));
    return new TextDecoder().decode(stdout);
  } finally {
    await Deno.remove(file);
  }
}
