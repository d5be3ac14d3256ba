import { assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import { parseCredentials, readCredentials, writeCredentials } from "./credentials.ts";
import { FakeFiles } from "../../../tests/support/fake_files.ts";
import { FakeHost } from "../../../tests/support/fake_host.ts";

const parse = (text: string) => parseCredentials(new TextEncoder().encode(text), "/etc/svc.json");

Deno.test("reads an API key or a secret, with comments, and ignores settings of the runtime", () => {
  const { login, ...rest } = parse(`{
    // from the cloud
    "cloud": {"app_address": "https://app", "id": "part", "api_key": {"id": "k", "key": "sesame"}, "secret": "old"},
    "components": [],
  }`);
  assertEquals(rest, { appAddress: "https://app", id: "part", metered: false });
  assertEquals([login.type, login.entity, login.payload.reveal()], ["api-key", "k", "sesame"]);
  const { login: old } = parse('{"cloud": {"app_address": "https://app", "id": "part", "secret": "sesame"}}');
  assertEquals([old.type, old.entity, old.payload.reveal()], ["robot-secret", "part", "sesame"]);
});

Deno.test("parseCredentials: errors name the file and key, and show no secret", () => {
  const bad: [text: string, logged: string][] = [
    ["[]", "found an empty array, wanted"],
    ["{}", "cloud: missing"],
    ['{"cloud": {"id": "p", "secret": "sesame"}}', "cloud.app_address: missing"],
    ['{"cloud": {"app_address": " ", "id": "p", "secret": "sesame"}}', "a text that is not empty"],
    // The agent could not even start with these.
    [
      '{"cloud": {"app_address": "https://a pp", "id": "p", "secret": "sesame"}}',
      'cloud.app_address: found "https://a pp", wanted an address such as "https://host:port"',
    ],
    ['{"cloud": {"app_address": "ftp://a", "id": "p", "secret": "sesame"}}', "cloud.app_address"],
    ['{"cloud": {"app_address": "https://a:70000", "id": "p", "secret": "sesame"}}', "cloud.app_address"],
    ['{"cloud": {"app_address": "a", "id": "p"}}', "cloud.api_key: missing"],
    // A broken key is an error even where a secret would do.
    [
      '{"cloud": {"app_address": "a", "id": "p", "secret": "sesame", "api_key": {"id": "k"}}}',
      "cloud.api_key.key",
    ],
    [
      '{"cloud": {"app_address": "a", "id": "p", "secret": "sesame", "api_key": {"id": "k", "key": ""}}}',
      "wanted the key",
    ],
    ['{"cloud": {"app_address": "a", "id": "p", "secret": 12345}}', "cloud.secret"],
  ];
  for (const [text, logged] of bad) {
    const { message } = assertThrows(() => parse(text), SvcError);
    assertStringIncludes(message, "/etc/svc.json: ");
    assertStringIncludes(message, logged);
    assertEquals(/sesame|12345/.test(message), false, message);
  }
});

Deno.test("readCredentials: without a file uses the environment, and otherwise lists the missing variables", async () => {
  const env: Record<string, string> = { SVC_API_KEY_ID: "k", SVC_API_KEY: "sesame", SVC_PART_ID: "p" };
  const host = new FakeHost({ env });
  const error = await assertRejects(
    () => readCredentials(host, "/etc/svc.json"),
    SvcError,
    "SVC_APP_ADDRESS",
  );
  assertEquals(error.code, "not_found");
  env.SVC_APP_ADDRESS = "app/x";
  const bad = await assertRejects(() => readCredentials(host, "/etc/svc.json"), SvcError, "SVC_APP_ADDRESS");
  assertEquals(bad.code, "invalid_argument");
  env.SVC_APP_ADDRESS = "https://app";
  const { appAddress, id, login } = await readCredentials(host, "/etc/svc.json");
  assertEquals([appAddress, id, login.entity, login.payload.reveal()], ["https://app", "p", "k", "sesame"]);
});

Deno.test("writeCredentials: writes only valid credentials, unchanged and with mode 0600", async () => {
  const files = new FakeFiles();
  await assertRejects(() => writeCredentials(files, "/etc/svc.json", "{}"), SvcError);
  const text = '{"cloud": {"app_address": "a", "id": "p", "secret": "s"}} // mine';
  await writeCredentials(files, "/etc/svc.json", text);
  assertEquals(files.paths, ["/etc/svc.json"]);
  assertEquals([files.text("/etc/svc.json"), files.mode("/etc/svc.json")], [text, 0o600]);
});
