import { assertEquals, assertRejects } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { FakeHost } from "../../../tests/support/fake_host.ts";
import { SvcError } from "../../base/error.ts";
import { Registry } from "../../resource/registry.ts";
import { ConfigEditor } from "./editor.ts";

const PATH = "/etc/machine.json";
const TEXT = `{
  // Keep me.
  "auth": { "handlers": [{ "type": "api-key", "config": { "me": "secret-key", "keys": ["me"] } }] },
  "components": []
}
`;

function world(text = TEXT) {
  const host = new FakeHost({ files: { [PATH]: new TextEncoder().encode(text) } });
  const clock = new FakeClock();
  const editor = new ConfigEditor({ path: PATH, registry: new Registry([], []), host, clock });
  return { host, clock, editor };
}

Deno.test("ConfigEditor: a change keeps comments, secrets and the version before", async () => {
  const { host, clock, editor } = world();
  const { text, revision } = await editor.show();
  assertEquals(text.includes("secret-key"), false);
  const edited = text.replace('"components": []', '"components": [], "debug": true');
  const next = await editor.apply(edited, revision);
  assertEquals(
    await host.readTextFile(PATH),
    TEXT.replace('"components": []', '"components": [], "debug": true'),
  );
  assertEquals((await editor.show()).revision, next);
  const [version, ...others] = await editor.versions();
  assertEquals([others, version.untilMs], [[], clock.nowMs()]);
  assertEquals((await editor.version(version.id)).includes("secret-key"), false);
  assertEquals(await editor.restore(version.id, next), revision);
  assertEquals(await host.readTextFile(PATH), TEXT);
});

Deno.test("ConfigEditor: refuses a text of another revision, and one that svc-server would refuse", async () => {
  const { host, editor } = world();
  const { text, revision } = await editor.show();
  const code = async (work: Promise<unknown>, logged: string) =>
    (await assertRejects(() => work, SvcError, logged)).code;
  assertEquals(await code(editor.apply(text, "other"), "has changed since you began to edit it"), "aborted");
  assertEquals(await code(editor.apply('{"a": ', revision), "found the end of the file"), "invalid_argument");
  assertEquals(await code(editor.apply("[]", revision), "wanted an object"), "invalid_argument");
  for (const id of ["", "../machine", "2026-01-31T10-20-30-123Z-0a1b2c3d4e5f6071"]) {
    assertEquals(await code(editor.version(id), "there is no version"), "not_found");
  }
  assertEquals(await host.readTextFile(PATH), TEXT);
});

Deno.test("ConfigEditor: problems have their place in the shown text", async () => {
  const { editor } = world();
  const { text } = await editor.show();
  const edited = text.replace(
    '"components": []',
    '"components": [{ "name": 7 }], "network": { "bind_addres": "x" }',
  );
  const { problems, isUsable } = await editor.check(edited);
  assertEquals(isUsable, true);
  const placed = problems.map(({ path, from, to }) => [path, edited.slice(from, to)]);
  assertEquals(placed.find(([path]) => path === "components.0.name"), ["components.0.name", "7"]);
  const broken = await editor.check('{\n  "components": [}\n');
  assertEquals([broken.isUsable, broken.problems.length, broken.problems[0].from], [false, 1, 19]);
});

Deno.test("ConfigEditor: keeps at most 20 versions, the newest", async () => {
  const { clock, editor } = world('{"components": []}');
  let { revision } = await editor.show();
  for (let round = 0; round < 23; round++) {
    await clock.advance(1000);
    revision = await editor.apply(`{"components": [], "revision": "r${round}"}`, revision);
  }
  const versions = await editor.versions();
  assertEquals(versions.length, 20);
  assertEquals(await editor.version(versions[0].id), '{"components": [], "revision": "r21"}');
  assertEquals(await editor.version(versions.at(-1)!.id), '{"components": [], "revision": "r2"}');
});
