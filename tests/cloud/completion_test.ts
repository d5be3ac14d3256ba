/**
 * Completion of svc-cloud's command lines: its own words, and the control plane's entries.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { main } from "../../cli/cloud/main.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { svcCloud } from "./program.ts";

/** The words that are proposed for the last word of a command line. */
async function proposed(line: string, data: string, home = `${data}/home`): Promise<string[]> {
  const host = new DenoHost();
  let [output, errors] = ["", ""];
  host.write = (text) => void (output += text);
  host.writeError = (text) => void (errors += text);
  host.env = (name) => ({ SVC_CLOUD_DATA: data, SVC_HOME: home })[name];
  assertEquals([await main(["__complete", "--", ...line.split(" ")], host), errors], [0, ""]);
  return output.split("\n").filter(Boolean).map((one) => one.split("\t")[0]);
}

Deno.test("completes commands, flags and the values of flags without a control plane", async () => {
  const data = `${await Deno.makeTempDir()}/none`;
  assertEquals(await proposed("mac", data), ["machine"]);
  assertEquals(await proposed("machine ", data), [
    "create",
    "list",
    "rename",
    "move",
    "tag",
    "untag",
    "delete",
  ]);
  assertEquals(await proposed("--data /x machine cr", data), ["create"]);
  assertEquals(await proposed("machine create --lo", data), ["--location"]);
  assertEquals(await proposed("key create --role ", data), ["viewer", "operator", "owner"]);
  assertEquals(await proposed("serve --organizations ", data), ["operator", "anybody"]);
  assertEquals(await proposed("package upload --visibility pub", data), ["public", "public_unlisted"]);
  assertEquals(await proposed("release publish ", data), ["svc-agent", "svc-server"]);
  assertEquals(await proposed("secret rotate ", data), ["token", "authority", "release", "links"]);
  assertEquals(await proposed("completion z", data), ["zsh"]);
  assertEquals(await proposed("logs ", data), []);
  assertEquals(await Deno.stat(data).then(() => true, () => false), false);
});

Deno.test("completes names in the control plane", async () => {
  const data = await Deno.makeTempDir();
  const place = ["--data", data, "--json"];
  await svcCloud("init", ...place);
  const { machines: [machine] } = JSON.parse(await svcCloud("machine", "list", ...place));
  assertEquals(await proposed("location list --org ", data), ["example"]);
  assertEquals(await proposed("machine create --location ", data), ["home"]);
  assertEquals(await proposed("machine delete ", data), [machine.name]);
  assertEquals(await proposed("logs ", data), [machine.parts[0].name]);
  assertEquals((await proposed("key revoke ", data)).length, 2);
  assertEquals(await proposed("key create --on ", data), [
    "organization:example",
    "location:home",
    `machine:${machine.name}`,
  ]);
  assertEquals(await proposed("key create --on machine:", data), [`machine:${machine.name}`]);
  assertEquals(await proposed("key create --role operator --on loc", data), ["location:home"]);
  await svcCloud("machine", "create", "a name with blanks", ...place);
  const blanks = JSON.parse(await svcCloud("machine", "list", ...place)).machines
    .find(({ name }: { name: string }) => name.includes(" "));
  assertEquals(await proposed(`key create --on ${blanks.id.slice(0, 8)}`, data), [blanks.id]);

  const field = { base_url: "https://cloud.example", key_id: "ann", key: "secret" };
  await Deno.writeTextFile(`${data}/cloud_profiles.json`, JSON.stringify({ profiles: { field } }));
  assertEquals(await proposed("profile use ", data, data), ["field"]);
  assertEquals(await proposed("logs --profile ", data, data), ["field"]);
  assertEquals(
    await proposed("logs --profile field ", data, data),
    [],
    "these names are another control plane's",
  );
  await Deno.remove(data, { recursive: true });
});

Deno.test("in bash, names behind a colon are completed, however bash divides the words", async () => {
  const script = await svcCloud("completion", "bash");
  const cases: readonly [breaks: string, words: string[], asked: string, replies: string][] = [
    [" :", ["key", "create", "--on", "machine", ":", "ro"], "machine:ro", "rover"],
    [" :", ["key", "create", "--on", "machine", ":"], "machine:", "rover"],
    [" ", ["key", "create", "--on", "machine:ro"], "machine:ro", "machine:rover"],
    [" :", ["key", "create", "--on", "mach"], "mach", "machine:rover"],
  ];
  for (const [breaks, words, asked, replies] of cases) {
    const test = `${script}
svc-cloud() { printf 'machine:rover\\tid\\n'; printf '%s|' "$@" > "$SEEN"; }
COMP_WORDBREAKS='${breaks}'
COMP_WORDS=(svc-cloud ${words.join(" ")})
COMP_CWORD=${words.length}
SEEN=$(mktemp)
_svc_cloud
printf '%s\\n' "\${COMPREPLY[@]}"
cat "$SEEN"; rm "$SEEN"`;
    const { stdout } = await new Deno.Command("bash", { args: ["-c", test] }).output();
    const wanted = `${replies}\n__complete|--|key|create|--on|${asked}|`;
    assertEquals(new TextDecoder().decode(stdout), wanted, words.join(" "));
  }
});

Deno.test("the bash completion script completes svc-cloud, and other shells get their script", async () => {
  const script = await svcCloud("completion", "bash");
  // The program's output, in place of the program.
  const test = `${script}
svc-cloud() { printf 'export\\tWrites it\\nexamine\\n'; }
COMP_WORDS=(svc-cloud dataset ex)
COMP_CWORD=2
_svc_cloud
printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { success, stdout } = await new Deno.Command("bash", { args: ["-c", test] }).output();
  assertEquals([success, new TextDecoder().decode(stdout)], [true, "export\nexamine\n"]);
  for (const shell of ["zsh", "fish", "powershell"]) {
    assertStringIncludes(await svcCloud("completion", shell), "svc-cloud __complete -- ");
  }
});
