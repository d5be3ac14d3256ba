/**
 * The file of profiles: writing, reading, and its state after errors.
 */

import { assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../base/error.ts";
import { SystemFiles } from "../base/files/system_files.ts";
import { Secret } from "../base/secret.ts";
import { chosen, givenKey, type Profile, ProfileFile } from "./profile.ts";
import { FakeHost } from "../../tests/support/fake_host.ts";

const PATH = "/home/.svc/profiles.json";

function profile(key: string): Profile {
  return {
    baseUrl: "https://cloud.example",
    keyId: "id",
    key: new Secret(key),
    session: false,
    organizationId: undefined,
    organizationName: undefined,
    allowInsecureCreds: false,
    caFile: undefined,
  };
}

const HOME = { env: { HOME: "/home" } };

Deno.test("ProfileFile: saves, changes and removes profiles in a file with mode 0600", async () => {
  const files = new FakeHost(HOME);
  const file = new ProfileFile(files);
  assertEquals(await file.read(), { current: "default", profiles: {} });
  await file.save("one", profile("key 1"));
  await file.save("two", {
    ...profile("key 2"),
    organizationId: "org",
    organizationName: "Ångström Labs",
    allowInsecureCreds: true,
    caFile: "/ca",
  });
  const all = await new ProfileFile(files).read();
  assertEquals([all.current, Object.keys(all.profiles)], ["two", ["one", "two"]]);
  assertEquals(chosen(all, "one", PATH).key.reveal(), "key 1");
  assertEquals([
    all.profiles.two.organizationId,
    all.profiles.two.organizationName,
    all.profiles.two.allowInsecureCreds,
    all.profiles.two.caFile,
  ], [
    "org",
    "Ångström Labs",
    true,
    "/ca",
  ]);
  await file.use("one");
  await file.save("three", profile("key 3"), { stay: true });
  assertEquals((await file.read()).current, "one");
  await file.remove("one");
  await file.save("four", profile("key 4"), { stay: true });
  assertEquals((await file.read()).current, "four", "there was none to stay");
  assertEquals(files.mode(PATH), 0o600);
  await assertRejects(
    () => file.use("one"),
    SvcError,
    `no profile "one" in ${PATH}: it holds two, three, four`,
  );
});

Deno.test("ProfileFile: the first profile of a user makes the folder for it", async () => {
  const home = await Deno.makeTempDir();
  try {
    const host = Object.assign(new SystemFiles(), {
      env: (name: string) => name === "HOME" ? home : undefined,
    });
    const file = new ProfileFile(host);
    await file.save("one", profile("key 1"));
    assertEquals(Object.keys((await file.read()).profiles), ["one"]);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
});

Deno.test("ProfileFile: an invalid file gives an error and stays unchanged", async () => {
  const files = new FakeHost(HOME);
  await files.writeFile(PATH, '{"profiles": {"a": {"key_id": 3}}}');
  const before = files.text(PATH);
  const error = await assertRejects(() => new ProfileFile(files).save("b", profile("key")), SvcError);
  assertEquals(error.code, "failed_precondition");
  assertEquals(
    error.message,
    `${PATH}: profiles.a.base_url: missing required field, wanted a string; ` +
      "profiles.a.key_id: found 3, wanted a string; profiles.a.key: missing required field, wanted a string; " +
      "mend it, or remove it and log in again",
  );
  assertEquals(files.text(PATH), before);
});

Deno.test("a key of the environment has no blanks at its ends, and needs both of its variables", () => {
  const host = new FakeHost({ env: { SVC_API_KEY_ID: " id\r", SVC_API_KEY: "k_secret\r\n" } });
  const given = givenKey(host);
  assertEquals([given?.keyId, given?.key.reveal()], ["id", "k_secret"]);
  assertEquals(givenKey(new FakeHost({ env: { SVC_API_KEY_ID: "id", SVC_API_KEY: " " } })), undefined);
});
