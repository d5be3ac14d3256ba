import { assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import { hideSecrets, restoreSecrets } from "./hidden_secrets.ts";

const TEXT = `{
  // "api_key": "old-one", see https://me:hunter2@example.com
  "cloud": { "id": "part-1", "secret": "s3cret" },
  "auth": { "handlers": [{ "type": "api-key", "config": { "id-1": "key-1", "keys": ["id-1"] } }] },
  "components": [
    { "name": "a", "attributes": { "url": "mongodb://user:pa\\u0073s@host/db", "psk": 12345678 } },
    { "name": "b", "attributes": { "env": { "HOME": "/root" }, "tls": "-----BEGIN PRIVATE KEY-----\\nabc\\n-----END PRIVATE KEY-----\\n" } },
  ],
}
`;

Deno.test("hideSecrets: no secret is left in the text, and restoreSecrets brings all of them back", () => {
  const { text, secrets } = hideSecrets(TEXT.replace("\\u0073", "s"), "m.json");
  for (
    const secret of ["old-one", "hunter2", "s3cret", "key-1", "pass@", "12345678", "/root", "abc"]
  ) {
    assertEquals(text.includes(secret), false, `${secret} in ${text}`);
  }
  for (const kept of ["part-1", "mongodb://******(", "https://******(", '"name": "a"', "],\n}"]) {
    assertEquals(text.includes(kept), true, `${kept} not in ${text}`);
  }
  assertEquals(restoreSecrets(text, secrets, "m.json"), TEXT.replace("\\u0073", "s"));
});

Deno.test("restoreSecrets: a hidden secret moves with its setting, and nowhere else", () => {
  const { text, secrets } = hideSecrets('{"a": {"secret": "one", "n": 1}, "b": {"secret": "two"}}', "m.json");
  assertEquals(text, '{"a": {"secret": "******(1)", "n": 1}, "b": {"secret": "******(2)"}}');
  const moved = '{"b": {"secret": "******(1)"}, "c": [{"secret": "******(2)"}], "d": {"secret": "new"}}';
  assertEquals(
    restoreSecrets(moved, secrets, "m.json"),
    '{"b": {"secret": "one"}, "c": [{"secret": "two"}], "d": {"secret": "new"}}',
  );
  for (const stolen of ['{"name": "******(1)"}', '{"secret": "******(3)"}', '{"secret": "x******(1)"}']) {
    const { code } = assertThrows(
      () => restoreSecrets(stolen, secrets, "m.json"),
      SvcError,
      "hidden secret ******(",
    );
    assertEquals(code, "invalid_argument");
  }
  assertEquals(restoreSecrets('{"name": "******"}', secrets, "m.json"), '{"name": "******"}');
});

Deno.test("hideSecrets: a text whose secrets it cannot hide is not shown", () => {
  for (
    const text of [
      '{"secret": "one", "secret": "two"}',
      '{"a.secret": {"secret": "one"}, "a": {"secret": {"secret": "two"}}}',
      '{"url": "x://u:p\\u0061ss@h"}',
    ]
  ) {
    try {
      const shown = hideSecrets(text, "m.json").text;
      assertEquals(/one|two|ss@/.test(shown), false, shown);
    } catch (error) {
      assertEquals(SvcError.from(error).code, "failed_precondition");
    }
  }
});
