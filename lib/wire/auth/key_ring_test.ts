import { assert, assertEquals, assertMatch, assertNotEquals, assertStringIncludes } from "@std/assert";
import { generateKeyPairSync } from "node:crypto";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { FakeFiles } from "../../../tests/support/fake_files.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { TokenKeyRing } from "./key_ring.ts";
import { TOKEN_MS } from "./tokens.ts";

const PATH = "/home/token_keys.json";

function bench(files = new FakeFiles(), clock = new FakeClock()) {
  const records: LogRecord[] = [];
  const logger = new Logs(clock, [memorySink(records)]).logger("rdk");
  const open = (...[path]: [string?]) => TokenKeyRing.open(path, { host: files, clock, logger });
  const warnings = () => records.filter(({ level }) => level === "warn").map(({ message }) => message);
  return { files, clock, open, warnings };
}

/** The valid keys with their salts, as comparable text. */
function stateOf(keys: TokenKeyRing): string[] {
  const ids = keys.good().map((key) => String(key.export({ format: "jwk" }).x));
  return [...ids, ...keys.salt()].map(String);
}

Deno.test("TokenKeyRing: a new process reads the same keys from the file, which has mode 0600", async () => {
  const { files, open, warnings } = bench();
  const first = await open(PATH);
  const before = stateOf(first);
  await first.close();
  assertEquals(files.mode(PATH), 0o600);
  const second = await open(PATH);
  assertEquals(stateOf(second), before);
  await second.close();
  assertEquals(warnings(), []);
});

Deno.test("TokenKeyRing: without a file, the keys belong to the process until keep writes them", async () => {
  const { files, open } = bench();
  const [one, other] = [await open(), await open()];
  assertNotEquals(stateOf(one), stateOf(other));
  assertEquals(files.paths.filter((path) => path.includes("token")), []);
  // One that is given later gets the keys in use.
  await one.moveTo(PATH);
  const next = await open(PATH);
  assertEquals(stateOf(next), stateOf(one));
  await Promise.all([one, other, next].map((keys) => keys.close()));
});

Deno.test("TokenKeyRing: a key signs for TOKEN_MS and stays valid for as long again", async () => {
  const { clock, open } = bench();
  const keys = await open(PATH);
  const [first] = keys.good();
  await clock.advance(TOKEN_MS - 60_000);
  assert(keys.good()[0] === first);
  await clock.advance(120_000);
  const [second, ...others] = keys.good();
  assert(second !== first && others.length === 1 && others[0] === first);
  await keys.close();
  // While the process is away, too.
  await clock.advance(TOKEN_MS + 60_000);
  const later = await open(PATH);
  const { length } = later.good();
  assertEquals(length, 2, "the second one may have signed until now; the first one is over");
  await later.close();
  const again = await open(PATH);
  assertEquals(stateOf(again), stateOf(later));
  await again.close();
});

Deno.test("an unusable file is replaced with new keys, and the log gives the reason", async () => {
  const rsa = generateKeyPairSync("rsa", { modulusLength: 1024 }).privateKey;
  const foreign = rsa.export({ type: "pkcs8", format: "der" }).toString("base64url");
  const good = bench();
  await (await good.open(PATH)).close();
  const text = await good.files.readTextFile(PATH);
  const json = JSON.parse(text);
  const cases: [string, string | Uint8Array, number?][] = [
    ["others may read it (mode 644), wanted mode 600", text, 0o644],
    ["others may read it (mode 640), wanted mode 600", text, 0o640],
    ["wanted JSON", text.slice(0, text.length / 2)],
    ["wanted JSON", ""],
    ["wanted JSON", Uint8Array.from([0xff, 0xfe, 0, 0])],
    ["salt: wanted 32 bytes", "null"],
    ["salt: wanted 32 bytes", JSON.stringify({ ...json, salt: "c2hvcnQ" })],
    ["keys: wanted a list of 1 to 8 keys", JSON.stringify({ ...json, keys: [] })],
    ["keys: wanted a list of 1 to 8 keys", JSON.stringify({ ...json, keys: Array(9).fill(json.keys[0]) })],
    ["keys.0.made_ms: wanted a number", JSON.stringify({ ...json, keys: [{ key: json.keys[0].key }] })],
    ["keys.0.key: wanted a private key", JSON.stringify({ ...json, keys: [{ key: "AAAA", made_ms: 1 }] })],
    ["keys.0.key: found rsa", JSON.stringify({ ...json, keys: [{ key: foreign, made_ms: 1 }] })],
    ["it has 20000 bytes", " ".repeat(20_000)],
  ];
  for (const [why, content, mode = 0o600] of cases) {
    const { files, open, warnings } = bench();
    files.put(PATH, content, mode);
    const keys = await open(PATH);
    const [warning, ...more] = warnings();
    assertStringIncludes(warning, why);
    assertStringIncludes(warning, PATH);
    assert(!warning.includes(json.keys[0].key) && !warning.includes(json.salt), "no secret in the log");
    assertEquals(more, []);
    assertEquals(files.mode(PATH), 0o600);
    await keys.close();
    const next = await open(PATH);
    assertEquals(stateOf(next), stateOf(keys));
    assertEquals(warnings().length, 1);
    await next.close();
  }
});

Deno.test("TokenKeyRing: replaces a link at its path and leaves the target unchanged", async () => {
  const { files, open, warnings } = bench();
  files.put("/etc/other", "precious");
  await files.turnLink(PATH, "/etc/other");
  const keys = await open(PATH);
  assertMatch(warnings()[0], /found a link, wanted a file/);
  await keys.close();
  assertEquals(await files.readTextFile("/etc/other"), "precious");
  assertEquals(await files.readLink(PATH), undefined);
});

Deno.test("TokenKeyRing: a changed or removed file takes effect while the server runs", async () => {
  const { files, clock, open, warnings } = bench();
  const keys = await open(PATH);
  let changes = 0;
  keys.onChange(() => changes++);
  const before = stateOf(keys);
  const text = await files.readTextFile(PATH);
  await files.removeDurably(PATH);
  await clock.advance(0);
  await keys.moveTo(PATH);
  assertMatch(warnings()[0], /is gone: a new key signs tokens/);
  assertEquals([changes, stateOf(keys) === before], [1, false]);
  assertNotEquals(stateOf(keys), before);
  // As from a backup.
  files.put(PATH, text, 0o600);
  await keys.moveTo(PATH);
  assertEquals([changes, stateOf(keys)], [2, before]);
  // The system does not tell of every change.
  files.watchFile = () => () => {};
  await keys.close();
  const deaf = await open(PATH);
  files.removeFile(PATH);
  await clock.advance(60_000);
  await deaf.moveTo(PATH);
  assertNotEquals(stateOf(deaf), before);
  await deaf.close();
});

Deno.test("TokenKeyRing: keys that cannot be written stay in memory, with a single warning", async () => {
  for (const there of [undefined, "nonsense"]) {
    const { files, clock, open, warnings } = bench();
    if (there !== undefined) files.put(PATH, there, 0o600);
    files.full = true;
    const keys = await open(PATH);
    const before = stateOf(keys);
    await clock.advance(300_000);
    await keys.moveTo(PATH);
    assertEquals(stateOf(keys), before);
    const logged = warnings().filter((one) =>
      one.startsWith("cannot store the keys of tokens, which end with this process")
    );
    assertEquals(logged.length, 1);
    assertEquals(warnings().length, there === undefined ? 1 : 2);
    files.full = false;
    await clock.advance(60_000);
    await keys.close();
    const next = await open(PATH);
    assertEquals(stateOf(next), before);
    await next.close();
  }
});

Deno.test("TokenKeyRing: a file that is gone from a full disk means new keys once, until it is back", async () => {
  const { files, clock, open } = bench();
  const keys = await open(PATH);
  const [before, text] = [stateOf(keys), await files.readTextFile(PATH)];
  files.removeFile(PATH);
  files.full = true;
  await clock.advance(60_000);
  await keys.moveTo(PATH);
  const after = stateOf(keys);
  assertNotEquals(after, before);
  await clock.advance(300_000);
  await keys.moveTo(PATH);
  assertEquals(stateOf(keys), after);
  // As from a backup.
  files.put(PATH, text, 0o600);
  await clock.advance(60_000);
  await keys.moveTo(PATH);
  assertEquals(stateOf(keys), before);
  await keys.close();
});
