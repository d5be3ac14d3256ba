import { assertEquals } from "@std/assert";
import { isSecretName, jsonDiff, starred } from "./json_secrets.ts";
import type { Json } from "./schema.ts";

Deno.test("isSecretName: recognizes secret names and no others", () => {
  const secret = [
    "password",
    "wifi_psk",
    "PASSWD",
    "api_key",
    "apiKey",
    "key",
    "keys",
    "tls_private_key",
    "token",
  ];
  const more = [
    "tokens",
    "client_secret",
    "payload",
    "ssh-key",
    "credentials",
    "pass",
    "awsKey",
    "session_cookie",
  ];
  for (const name of [...secret, ...more]) assertEquals([name, isSecretName(name)], [name, true]);
  const plain = [
    "max_rpm",
    "pins",
    "maintenance_allowed_key",
    "public_key",
    "monkey",
    "keyboard",
    "key_id",
    "passive",
  ];
  for (const name of [...plain, "payload_kg", "compass"]) {
    assertEquals([name, isSecretName(name)], [name, false]);
  }
});

const config = (secret: string) => ({
  cloud: { id: "part", api_key: { id: "id", key: secret } },
  auth: { handlers: [{ type: "api-key", config: { "some-id": secret, keys: ["some-id"] } }] },
  remotes: [{
    name: "arm",
    address: "arm:8080",
    auth: { entity: "e", credentials: { type: "api-key", payload: secret } },
  }],
  modules: [{ name: "m", executable_path: "/m", env: { LEVEL: secret, PATH: secret } }],
  components: [{
    name: "secret_keeper",
    attributes: {
      speed: 1,
      wifi_psk: secret,
      deep: { api_key: { deeper: [secret] } },
      url: `rtsp://user:${secret}@camera/1`,
      list: [`-----BEGIN PRIVATE KEY-----\n${secret}\n-----END PRIVATE KEY-----`],
    },
  }],
});

Deno.test("starred: masks secrets and keeps the rest of the document", () => {
  const shown = starred(config("hunter2"));
  assertEquals(JSON.stringify(shown).includes("hunter2"), false);
  assertEquals(shown.components[0].name, "secret_keeper");
  assertEquals([shown.components[0].attributes.speed, shown.cloud.id], [1, "part"]);
  assertEquals(shown.components[0].attributes.url, "rtsp://******@camera/1");
  assertEquals(shown.modules[0].env, { LEVEL: "******", PATH: "******" });
  for (const name of ["env", "environment", "ENV_VARS", "svc_server_env", "environment_variables"]) {
    assertEquals(starred({ [name]: { A: "x" } }), { [name]: { A: "******" } });
  }
  assertEquals(starred({ environment: "production", token: null } as Json), {
    environment: "production",
    token: null,
  });
});

Deno.test("starred, jsonDiff: users, passwords and signatures of addresses are hidden anywhere", () => {
  for (
    const [text, shown] of [
      ["https://hunter2@host/a", "https://******@host/a"],
      ["rtsp://admin:hunter2@10.0.0.9:554/s?channel=1", "rtsp://******@10.0.0.9:554/s?channel=1"],
      ["rtsp://admin:hun/ter?2#@cam:554/s", "rtsp://******@cam:554/s"],
      ["mqtt://a:p@ss{2}@h", "mqtt://******@h"],
      ["https://s/f?sig=hunter2hunter2hunter2&x=1", "https://s/f?sig=******&x=1"],
      ["https://s/f?X-Amz-Sign%61ture=hunter2", "https://s/f?X-Amz-Sign%61ture=******"],
      ["https://s/go?to=https%3A%2F%2Fu%3Ahunter2%40h", "https://s/go?to=******"],
      [
        "--from rtsp://a:hunter2@b --to https://h/?token=hunter2",
        "--from rtsp://******@b --to https://h/?token=******",
      ],
      ["https://host:8080/a@b?key_id=3", "https://host:8080/a@b?key_id=3"],
    ]
  ) {
    assertEquals(starred({ attributes: { text } }), { attributes: { text: shown } });
    const lines = jsonDiff({ a: 1, list: [text] }, { a: text, list: [] }).join(" ");
    assertEquals([lines.includes("hunter2"), lines.includes(shown)], [false, true]);
  }
  // Nothing hostile takes long.
  for (const text of [`a://${"?".repeat(200_000)}`, `a://b?${"c=http://x?".repeat(5_000)}`]) {
    starred({ text });
  }
});

Deno.test("jsonDiff: shows that a secret changed without its value", () => {
  const changes = [
    jsonDiff(config("hunter2"), config("hunter3")),
    jsonDiff({}, config("hunter2")),
    jsonDiff(config("hunter2"), {}),
    jsonDiff({ components: [] }, config("hunter2")),
    jsonDiff(config("hunter2"), { ...config("hunter2"), components: "none" }),
  ];
  for (const lines of changes) {
    assertEquals(lines.length > 0, true);
    assertEquals(lines.filter((line) => line.includes("hunter")), []);
  }
  assertEquals(changes[0].slice(0, 2), [
    "~ cloud.api_key.key: ****** -> ******",
    '~ auth.handlers: [{"type":"api-key","config":{"some-id":"******","keys":["******"]}}] -> ' +
    '[{"type":"api-key","config":{"some-id":"******","keys":["******"]}}]',
  ]);
  assertEquals(changes[0].includes("~ components.secret_keeper.attributes.wifi_psk: ****** -> ******"), true);
});

Deno.test("jsonDiff: names settings by path and list entries by name", () => {
  const motor = (name: string, attributes: Json = {}) => ({ name, attributes });
  const old = { components: [motor("a", { max_rpm: 1 }), motor("b")], debug: true };
  const now = { components: [motor("b"), motor("a", { max_rpm: 2 }), motor("c")], log: [] };
  assertEquals(jsonDiff(old, now), [
    "~ components.a.attributes.max_rpm: 1 -> 2",
    '+ components.c: {"name":"c","attributes":{}}',
    "- debug: true",
    "+ log: []",
  ]);
  assertEquals(jsonDiff({ x: [motor("a"), motor("b")] }, { x: [motor("b"), motor("a")] }), [
    "~ x: in another order",
  ]);
  assertEquals(jsonDiff(old, old), []);
});

Deno.test("jsonDiff: limits the number of lines and the length of each line", () => {
  const many = Object.fromEntries(Array.from({ length: 600 }, (_, n) => [`s${n}`, n]));
  const lines = jsonDiff({}, many);
  assertEquals([lines.length, lines.at(-1)], [501, "and 100 more"]);
  const [long] = jsonDiff({}, { text: "x".repeat(10_000) });
  assertEquals(long.length < 600, true);
});
