/**
 * What an installer on a new device gets of its control plane.
 */

import { assert, assertEquals } from "@std/assert";
import { parseCredentials } from "../../lib/agent/credentials.ts";
import { type Example, serveCloud, svcCloud } from "./program.ts";

Deno.test("the script knows where it came from; credentials are for who may be the part", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
  const example: Example = JSON.parse(await svcCloud("init", "--data", folder, "--json"));
  const cloud = await serveCloud(["--data", folder]);
  try {
    const script = await (await fetch(`${cloud.url}/install.sh`)).text();
    assert(script.includes(`root=\${SVC_ROOT_URL:-${cloud.url}}`), script.slice(0, 1500));
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

Deno.test("the scripts are such that a shell can read them", async () => {
  const script = new URL("../../install/install.sh", import.meta.url).pathname;
  const { code } = await new Deno.Command("sh", { args: ["-n", script] }).output();
  assertEquals(code, 0);
});
