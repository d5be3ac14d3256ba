/** A network on which computers have link-local IPv6 addresses alone, as on a cable between two of them. */

import { assertEquals, assertMatch } from "@std/assert";
import { run } from "../interop/programs.ts";
import { type Needed, needingTest } from "../support/needing.ts";

const CLIENT = new URL("./link_local_client.ts", import.meta.url).pathname;
const ADDRESS = "fe80::77";
const NETWORK = `ip link set lo up
ip link add cable0 type veth peer name cable1
ip link set cable1 up
ip link set cable0 up
ip address add ${ADDRESS}/64 dev cable0 nodad
exec "$@"`;

async function needs(): Promise<Needed<true>> {
  if (Deno.build.os !== "linux" || Deno.uid() !== 0) {
    return { missing: "network namespaces need root on Linux" };
  }
  const { code } = await run(["unshare", "--net", "sh", "-c", NETWORK, "sh", "true"])
    .catch(() => ({ code: -1 }));
  return code === 0 ? { found: true } : { missing: "the system makes no networks of its own" };
}

needingTest("a computer is reached by its link-local address and an interface", await needs(), async () => {
  const program = [Deno.execPath(), "run", "-A", "--no-check", CLIENT, ADDRESS, "cable0"];
  const proxy = ["env", "ALL_PROXY=http://192.0.2.1:3128"];
  const { code, stdout, stderr } = await run([
    ...["unshare", "--net", "sh", "-c", NETWORK, "sh"],
    ...proxy,
    ...program,
  ]);
  assertEquals(code, 0, stderr);
  const { stranger, refused, ...found } = JSON.parse(stdout.trim().split("\n").at(-1)!);
  assertEquals(found, {
    plain: "3000000 ab",
    asInUrls: "3000000 ab",
    secure: "3000000 ab",
    reached: [true, true, false, false],
  });
  assertMatch(stranger, /self-signed/);
  assertMatch(refused, /^cannot connect to \[fe80::77%cable0\]:\d+: .*refused/);
});
