/**
 * What an installer on a new device gets of its control plane.
 */

import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { parseCredentials } from "../../lib/agent/credentials.ts";
import { type Example, serveCloud, svcCloud } from "./program.ts";

Deno.test("the script knows where it came from; credentials are for who may be the part", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
  const example: Example = JSON.parse(await svcCloud("init", "--data", folder, "--json"));
  const cloud = await serveCloud(["--data", folder]);
  try {
    const script = await (await fetch(`${cloud.url}/install.sh`)).text();
    assert(script.includes(`served_from='${cloud.url}'\n`), script.slice(0, 1500));
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

/** What a shell would do if it were told to run an answer: all of it stands in comments, or in one quoted word. */
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

Deno.test("whatever stands in a Host header, no script has it in it", async () => {
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
    assert(answer.includes(`served_from='${cloud.url}'\n`));
    // Two headers: neither the second one nor both together.
    const twice = await getAs(cloud.url, host, "/install.sh", ["Host: $(id)"]);
    assertEquals(twice.includes("$(id)"), false);
  } finally {
    await cloud.stop();
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("the public address is what is served, printed and written for machines", async () => {
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
      assertEquals([answer.includes(`served_from='${main}'\n`), answer.includes("evil")], [true, false]);
    }
    assert((await getAs(cloud.url, "10.0.0.5:8090")).includes(`served_from='${other}'\n`));
    assertEquals(await create("meanwhile"), main);
    assertEquals(await create("told", "--address", "http://elsewhere:1"), "http://elsewhere:1");
  } finally {
    await cloud.stop();
    await Deno.remove(folder, { recursive: true });
  }
  await assertRejects(() => svcCloud("init", ...data, "--public-url", "http://$(id)"), Error, "--public-url");
});

function appAddress({ config: { cloud } }: Pick<Example, "config">): string {
  return (cloud as unknown as { app_address: string }).app_address;
}

Deno.test("the scripts are such that a shell can read them", async () => {
  const script = new URL("../../install/install.sh", import.meta.url).pathname;
  const { code } = await new Deno.Command("sh", { args: ["-n", script] }).output();
  assertEquals(code, 0);
});
