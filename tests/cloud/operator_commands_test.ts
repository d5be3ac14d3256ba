/** What an operator does by command: names, moves, and looking for who did what. */

import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { type Example, svcCloud, svcCloudPrinted } from "./program.ts";
import { storeTest } from "./stores.ts";

storeTest("an operator renames, moves and deletes, and finds it in the audit", async ({ flags }) => {
  const run = (...args: string[]) => svcCloud(...args, ...flags);
  const json = async (...args: string[]) => JSON.parse(await run(...args, "--json"));
  const { machineId, partId, organizationId, locationId }: Example = await json("init");

  await run("org", "rename", organizationId, "Orchard");
  await run("location", "rename", locationId, "100%_field");
  await run("location", "create", "barn");
  await run("machine", "rename", machineId, "rover");
  await run("machine", "move", machineId, "barn");
  const { machines: [part] } = await json("fleet");
  assertEquals([part.partId, part.machine], [partId, "rover"]);
  assertEquals(await json("fleet", "--offline"), { machines: [part] });
  assertEquals(await json("fleet", "--runs", "9.9.9"), { machines: [] });
  assertEquals([part.location, part.seenMs, part.seen], ["barn", undefined, null]);
  const [{ id, parts }] = (await json("machine", "list")).machines;
  assertEquals([id, parts[0].id], [machineId, partId]);
  for (const word of ["rover", partId, partId.slice(0, 6), "machine-main"]) {
    const { name } = parts[0];
    await run("config", "show", word === "machine-main" ? name : word);
  }
  const near = await assertRejects(() => run("config", "show", "rovr"), Error);
  assertStringIncludes(near.message, 'there is no part "rovr"; did you mean rover?');
  assertStringIncludes(await run("key", "list"), "of organization Orchard");
  assertStringIncludes(await run("fleet"), "PART ID");
  await run("location", "delete", "100%_field");
  await assertRejects(() => run("location", "delete", "barn"), Error, "wanted an empty one");
  await assertRejects(() => run("org", "delete", "Orchard"), Error, "wanted an empty one");
  await run("org", "create", "Nobody");
  await run("org", "delete", "Nobody");

  const invite = ["account", "invite", "Ann@example.com", "--role", "owner"];
  const { email, link } = await json(...invite, "--address", "https://cloud.example.com/");
  assertEquals(email, "ann@example.com");
  assertMatch(link, /^https:\/\/cloud\.example\.com\/#\/invitation\/[0-9a-f-]{36}\.[\w-]{43}$/);
  assertMatch((await svcCloudPrinted(...invite, ...flags)).remarks, /--address/);
  await assertRejects(() => run("account", "invite", "ann"), Error, "wanted an e-mail address");
  await assertRejects(() => run(...invite, "--address", "cloud"), Error, "--address");
  assertEquals(await json("account", "list"), { accounts: [] });
  for (const command of ["reset", "sessions", "sign-out", "remove"]) {
    await assertRejects(() => run("account", command, "ann@example.com"), Error, "there is no account");
  }

  const actions = async (...args: string[]) =>
    (await json("audit", ...args)).entries.map((one: { action: string }) => one.action);
  assertEquals(await actions("--action", "machine"), ["machine move", "machine rename"]);
  assertEquals(await actions("--action", "%"), []);
  assertEquals(await actions("--who", "nobody"), []);
  assertStringIncludes((await actions("--who", "tester", "--since", "1h")).join(), "org rename");
  assertEquals(await actions("--since", "2999-01-01"), []);
  await assertRejects(() => run("audit", "--since", "soon"), Error, '--since: found "soon"');
});

storeTest("--org tells machines, parts and entries of the audit apart by name", async ({ flags }) => {
  const run = (...args: string[]) => svcCloud(...args, ...flags);
  const json = async (...args: string[]) => JSON.parse(await run(...args, "--json"));
  await json("init");
  const { id: mine } = await json("org", "create", "mine");
  const { id: other } = await json("org", "create", "other");
  for (const org of ["mine", "other"]) {
    await run("location", "create", "home", "--org", org);
    await run("machine", "create", "rover", "--org", org);
  }
  for (
    const command of [["machine", "tag", "rover", "x"], ["config", "show", "rover"], ["restart", "rover"]]
  ) {
    await assertRejects(() => run(...command), Error, "means 2");
    await run(...command, "--org", "mine");
    await run(...command, "--org", other.slice(0, 8));
  }
  await run("machine", "untag", "rover", "x", "--org", "other");
  await run("logs", "rover", "--org", "mine");
  const tagsOf = async (org: string) => (await json("machine", "list", "--org", org)).machines[0]?.tags;
  assertEquals([await tagsOf("mine"), await tagsOf("other")], [["x"], []]);
  await assertRejects(
    () => run("machine", "tag", "rover", "x", "--org", "othr"),
    Error,
    "did you mean other?",
  );

  await run("key", "create", "--on", "organization:mine", "--name", "k");
  const audited = async (org: string) =>
    (await json("audit", "--org", org)).entries.map((one: { action: string }) => one.action);
  assertEquals(await audited("mine"), [
    "key create",
    "restart",
    "machine tag",
    "machine create",
    "location create",
  ]);
  assertEquals((await audited(other)).slice(0, 2), ["machine untag", "restart"]);
  assertEquals((await json("audit", "--org", mine, "--limit", "2")).entries.length, 2);
  assertEquals(await json("account", "list", "--org", "mine"), { accounts: [] });
  await assertRejects(() => run("account", "list", "--org", "nobody"), Error, "there is no organization");

  await run("machine", "delete", "rover", "--org", "mine");
  assertEquals((await json("machine", "list", "--org", "mine")).machines, []);
  assertEquals((await json("machine", "list", "--org", "other")).machines.length, 1);
});

storeTest("fragments, differences and restarts of many parts by command", async (database) => {
  const { flags, folder } = database;
  const run = (...args: string[]) => svcCloud(...args, ...flags);
  const json = async (...args: string[]) => JSON.parse(await run(...args, "--json"));
  const { partId }: Example = await json("init");
  const { partId: second } = await json("machine", "create", "second");
  const write = async (name: string, config: unknown) => {
    await Deno.writeTextFile(`${folder}/${name}`, JSON.stringify(config));
    return `${folder}/${name}`;
  };
  const camera = { name: "eye", api: "rdk:component:camera", model: "fake" };
  const fragment = await write("eye.json", { components: [camera] });
  assertStringIncludes(await run("fragment", "set", "eye", fragment), "eye is at revision 1");
  assertStringIncludes(await run("fragment", "set", "eye", fragment), "eye is at revision 2");
  assertEquals((await json("fragment", "apply", "eye", "--all")).parts.length, 2);
  assertEquals((await json("fragment", "apply", "eye", "--all")).parts, [], "once is enough");
  const [{ name, parts, revision }] = (await json("fragment", "list")).fragments;
  assertEquals([name, parts, revision], ["eye", 2, 2]);
  const { components } = await json("config", "show", "second", "--resolved");
  assertEquals(components.map((one: { name: string }) => one.name), ["eye"]);

  assertEquals((await json("restart", "--fragment", "eye")).parts.length, 2);
  assertEquals((await json("restart", "second", second, partId)).parts.length, 2, "each once");
  await assertRejects(() => run("restart"), Error, "found no PART");
  await assertRejects(() => run("restart", "second", "--all"), Error, "wanted either");

  // By tag, and by location; the fleet says what each part wants.
  const [{ location: home }] = (await json("machine", "list")).machines;
  await run("location", "create", "yard");
  await run("machine", "create", "far", "--location", "yard");
  assertEquals((await json("restart", "--location", home)).parts.length, 2);
  assertEquals((await json("machine", "tag", "second", "night", "rev:2")).tags, ["night", "rev:2"]);
  await run("machine", "tag", "far", "night");
  const restarted = (await json("restart", "--tag", "night")).parts;
  assertEquals(restarted.map((one: { name: string }) => one.name).sort(), ["far-main", "second-main"]);
  await run("machine", "untag", "far", "night");
  assertEquals((await json("restart", "--tag", "night")).parts.length, 1);
  await assertRejects(() => run("restart", "--tag", "nigth"), Error, "wanted one of night, rev:2");
  await assertRejects(() => run("machine", "untag", "far", "night"), Error, 'no tag "night"');
  await assertRejects(() => run("machine", "tag", "far", "two words"), Error, "wanted letters");
  const pinned = await write("pinned.json", {
    agent: { version_control: { agent: "https://user:hunter2@example.com/agent" } },
  });
  await run("config", "set", "far", pinned);
  const fleet = (await json("fleet", "--location", "yard")).machines;
  assertEquals(fleet.map((one: { wanted: unknown }) => one.wanted), [
    { server: "stable", agent: "https://example.com/agent" },
  ]);
  assertEquals((await json("fleet", "--tag", "night")).machines.length, 1);

  // An agent that runs what it has; then one with an installed version that it does not run, and a refused version.
  const { machines: all } = await json("fleet");
  const store = database.connect();
  const report = {
    agentRunning: "1.0.0",
    agentInstalled: "1.0.0",
    serverRunning: "1.0.0",
    serverInstalled: "1.0.0",
  };
  const [first] = all.map((one: { partId: string }) => one.partId);
  const behind = async (found: object) => {
    const text = JSON.stringify({ ...report, ...found });
    await store.transaction(async (sql) => {
      await sql.query("DELETE FROM agents WHERE part_id = ?", first);
      await sql.query("INSERT INTO agents (part_id, report, at_ms) VALUES (?, ?, ?)", first, text, 1);
    });
    return (await json("fleet", "--behind")).machines.map((one: { partId: string }) => one.partId);
  };
  assertEquals(await behind({}), []);
  assertEquals(await behind({ serverInstalled: "1.0.1" }), [first]);
  assertEquals(await behind({ refused: ["svc-server 1.0.1"] }), [first]);
  assertMatch(await run("machine", "list"), /^second .* night rev:2 /m);

  const file = await write("second.json", { components: [{ ...camera, name: "other" }] });
  const before = await json("config", "show", "second");
  assertStringIncludes(await run("config", "diff", "second", file), '+ components: [{"name":"other"');
  assertStringIncludes(await run("config", "set", "second", file, "--dry-run"), "- fragments");
  assertEquals(await json("config", "show", "second"), before);
  await run("fragment", "drop", "eye", "second", partId);
  await assertRejects(() => run("fragment", "show", "eyes"), Error, "did you mean eye?");
  await run("fragment", "delete", "eye");
  assertEquals(await json("fragment", "list"), { fragments: [] });
});

storeTest(
  "config edit takes what the editor leaves, and says so if there is no such editor",
  async (database) => {
    const { flags } = database;
    await svcCloud("init", ...flags);
    const folder = await Deno.makeTempDir({ prefix: "svc-edit-" });
    const before = ["VISUAL", "TMPDIR"].map((name) => [name, Deno.env.get(name)] as const);
    Deno.env.set("TMPDIR", folder);
    const textsLeft = () => [...Deno.readDirSync(folder)].length;
    const edit = (editor: string) => {
      Deno.env.set("VISUAL", editor);
      return svcCloud("config", "edit", "example-machine", ...flags);
    };
    try {
      await assertRejects(
        () => edit("no-such-editor -w"),
        Error,
        "cannot start the editor no-such-editor; name one",
      );
      await assertRejects(() => edit("false"), Error, "false failed: nothing is saved\n");
      assertStringIncludes(await edit("true"), "nothing changes");
      assertEquals(textsLeft(), 0, "a text may hold passwords, and nobody needs an unchanged one");
      await edit('sed -i 1s/{/{"disable_mdns":true,/');
      assertStringIncludes(await svcCloud("config", "show", "example-machine", ...flags), "disable_mdns");
      assertEquals(textsLeft(), 0);

      const editor = `${folder}/editor`;
      await Deno.writeTextFile(editor, '#!/bin/sh\necho mine > "$1"\nexit 1\n', { mode: 0o700 });
      await assertRejects(() => edit(editor), Error, "nothing is saved; your text is ");
      await assertRejects(() => edit("sed -i d"), Error, "; your text is ");
      assertEquals(textsLeft(), 3, "the editor, and two changed texts");
    } finally {
      for (const [name, value] of before) {
        if (value === undefined) Deno.env.delete(name);
        else Deno.env.set(name, value);
      }
      await Deno.remove(folder, { recursive: true });
    }
  },
);

storeTest("a key that a file has twice is warned about before it is saved", async ({ flags, folder }) => {
  const { partId }: Example = JSON.parse(await svcCloud("init", "--json", ...flags));
  const file = `${folder}/twice.json`;
  await Deno.writeTextFile(file, '{"components": [{"name": "lost"}],\n"components": []}');
  for (const words of [["config", "diff", partId], ["config", "set", partId], ["fragment", "set", "twice"]]) {
    const { remarks } = await svcCloudPrinted(...words, file, ...flags);
    const action = words.slice(0, 2).join(" ");
    const warning = "warning: components: written more than once, the last one counts";
    assertStringIncludes(remarks, `svc-cloud ${action}: ${warning}\n`);
  }
});

storeTest("a word that names nothing is told of by its own name, with what there is", async ({ flags }) => {
  const run = (...args: string[]) => svcCloud(...args, ...flags);
  await run("init");
  await assertRejects(() => run("fleet", "--tag", "nope"), Error, '--tag: found "nope", there is none yet');
  const update = () => run("package", "update", "maps", "--visibility", "public");
  await assertRejects(update, Error, 'there is no package "maps"\n');
});
