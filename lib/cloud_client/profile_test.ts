/** The file of profiles: what is written and read, and what becomes of it when something goes wrong. */

import { assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../base/error.ts";
import { FakeFiles } from "../../tests/support/fake_files.ts";
import { Secret } from "../base/secret.ts";
import { chosen, type Profile, ProfileFile } from "./profile.ts";

const PATH = "/home/.svc/profiles.json";

function profile(key: string): Profile {
  return {
    baseUrl: "https://cloud.example",
    keyId: "id",
    key: new Secret(key),
    organizationId: undefined,
    allowInsecureCreds: false,
    caFile: undefined,
  };
}

function fileOn(files: FakeFiles, modes: (number | undefined)[] = []): ProfileFile {
  return new ProfileFile({
    env: (name) => name === "HOME" ? "/home" : undefined,
    readFile: (path) => files.readFile(path),
    writeFile: (path, content, options) => {
      modes.push(options?.mode);
      return files.writeFile(path, content);
    },
    makeFolder: () => Promise.resolve(),
  });
}

Deno.test("profiles are kept, changed and forgotten, for the user's eyes only", async () => {
  const modes: (number | undefined)[] = [];
  const files = new FakeFiles();
  const file = fileOn(files, modes);
  assertEquals(await file.read(), { current: "default", profiles: {} });
  await file.save("one", profile("key 1"));
  await file.save("two", {
    ...profile("key 2"),
    organizationId: "org",
    allowInsecureCreds: true,
    caFile: "/ca",
  });
  const all = await fileOn(files).read();
  assertEquals([all.current, Object.keys(all.profiles)], ["two", ["one", "two"]]);
  assertEquals(chosen(all, "one", PATH).key.reveal(), "key 1");
  assertEquals([
    all.profiles.two.organizationId,
    all.profiles.two.allowInsecureCreds,
    all.profiles.two.caFile,
  ], [
    "org",
    true,
    "/ca",
  ]);
  await file.use("one");
  await file.save("three", profile("key 3"), { stay: true });
  assertEquals((await file.read()).current, "one");
  await file.remove("one");
  await file.save("four", profile("key 4"), { stay: true });
  assertEquals((await file.read()).current, "four", "there was none to stay");
  assertEquals(new Set(modes), new Set([0o600]));
  await assertRejects(
    () => file.use("one"),
    SvcError,
    `no profile "one" in ${PATH}: it holds two, three, four`,
  );
});

Deno.test("a file that cannot be understood is told, and stays as it is", async () => {
  const files = new FakeFiles();
  await files.writeFile(PATH, '{"profiles": {"a": {"key_id": 3}}}');
  const before = files.text(PATH);
  const error = await assertRejects(() => fileOn(files).save("b", profile("key")), SvcError);
  assertEquals(error.code, "failed_precondition");
  assertEquals(
    error.message,
    `${PATH}: profiles.a.base_url: missing required field, wanted a string; ` +
      "profiles.a.key_id: found 3, wanted a string; profiles.a.key: missing required field, wanted a string; " +
      "mend it, or remove it and log in again",
  );
  assertEquals(files.text(PATH), before);
});
