/**
 * Logging in, profiles, and their precedence: flags before the environment before the profile.
 */

import { relative } from "node:path";
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { KEY, ORGANIZATION, withFakeCloud } from "./fake_cloud.ts";
import { envOf, svcMl } from "./program.ts";

async function withHome(run: (env: Record<string, string>, home: string) => Promise<void>): Promise<void> {
  const home = await Deno.makeTempDir({ prefix: "svc-ml-" });
  try {
    await run({ SVC_HOME: home }, home);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
}

Deno.test("svc-ml login checks the key, stores it with mode 0600, and later commands use it", () =>
  withFakeCloud((cloud) =>
    withHome(async (env, home) => {
      const login = ["login", "--base-url", cloud.url, "--api-key-id", KEY.id];
      const { code, output, errors } = await svcMl(login, { env: { ...env, SVC_API_KEY: KEY.key } });
      assertEquals(code, 0, errors);
      assertEquals(output, `logged in to ${cloud.url}: example (org-1)\n`);
      assertEquals((await Deno.stat(`${home}/profiles.json`)).mode! & 0o777, 0o600);
      assertEquals((await svcMl(["list"], { env })).code, 0);
      const { output: listed } = await svcMl(["profiles", "--json"], { env });
      assertEquals(listed.includes(KEY.key), false);
      assertEquals(JSON.parse(listed).profiles, [{
        name: "default",
        baseUrl: cloud.url,
        keyId: KEY.id,
        organizationId: ORGANIZATION.id,
        organizationName: ORGANIZATION.name,
        current: true,
      }]);
    })
  ));

Deno.test("login asks on a terminal for missing values, and stores no wrong ones", () =>
  withFakeCloud((cloud) =>
    withHome(async (env, home) => {
      const wrong = await svcMl(["login"], { env, terminal: true, answers: [cloud.url, KEY.id, "wrong"] });
      assertEquals(wrong.code, 3);
      assertEquals([...Deno.readDirSync(home)], []);
      const right = await svcMl(["login", "--profile", "mine"], {
        env,
        terminal: true,
        answers: [cloud.url, KEY.id, ` ${KEY.key} `],
      });
      assertEquals(right.code, 0, right.errors);
      assertStringIncludes(right.errors, 'kept as profile "mine"');
      const alone = await svcMl(["login"], { env });
      assertEquals(alone.code, 2);
      // Whoever runs the tests may have a control plane at the usual port.
      assertMatch(
        alone.errors,
        /--base-url is missing(, and there is no terminal to ask on|; a control plane answers at http:)/,
      );
    })
  ));

Deno.test("svc-ml login reads the key from standard input and stores the absolute path of --ca-file", () =>
  withFakeCloud((cloud) =>
    withHome(async (env, home) => {
      const login = ["login", "--base-url", cloud.url, "--api-key-id", KEY.id];
      await Deno.writeTextFile(`${home}/ca.pem`, "");
      const file = relative(Deno.cwd(), `${home}/ca.pem`);
      const { code, errors } = await svcMl([...login, "--ca-file", file], { env, input: `${KEY.key}\r` });
      assertEquals(code, 0, errors);
      const { profiles } = JSON.parse(await Deno.readTextFile(`${home}/profiles.json`));
      assertEquals([profiles.default.key, profiles.default.ca_file], [KEY.key, `${home}/ca.pem`]);
      const wrong = await svcMl(login, { env, input: "wrong" });
      assertEquals(wrong.code, 3);
      const none = await svcMl(login, { env });
      assertEquals(none.code, 2);
      assertStringIncludes(none.errors, "SVC_API_KEY is missing, and there is no terminal to ask on");
    })
  ));

Deno.test("svc-ml login reads the key from a pipe without waiting for its end", () =>
  withFakeCloud((cloud) =>
    withHome(async (env, home) => {
      const program = new URL("../../cli/ml/main.ts", import.meta.url).pathname;
      const child = new Deno.Command(Deno.execPath(), {
        args: ["run", "-A", program, "login", "--base-url", cloud.url, "--api-key-id", KEY.id],
        env: { ...env, SVC_API_KEY: "" },
        stdin: "piped",
        stdout: "piped",
        stderr: "inherit",
      }).spawn();
      const input = child.stdin.getWriter();
      await input.write(new TextEncoder().encode(`${KEY.key}\n`));
      // It does not wait for the end of the input.
      const { code } = await child.output();
      await input.close().catch(() => {});
      assertEquals(code, 0);
      const { profiles } = JSON.parse(await Deno.readTextFile(`${home}/profiles.json`));
      assertEquals(profiles.default.key, KEY.key);
    })
  ));

Deno.test("svc-ml profiles are listed, chosen, used by name and deleted", () =>
  withFakeCloud((cloud) =>
    withHome(async (env) => {
      for (const name of ["one", "two"]) {
        const login = ["login", "--profile", name, "--api-key-id", KEY.id, "--base-url", cloud.url];
        assertEquals((await svcMl(login, { env: { ...env, SVC_API_KEY: KEY.key } })).code, 0);
      }
      assertEquals((await svcMl(["profiles", "use", "one"], { env })).code, 0);
      const { output } = await svcMl(["profiles"], { env });
      assertEquals(output.split("\n").map((line) => line.slice(0, 13).trimEnd()), [
        "NAME  STATE",
        "one   current",
        "two   -",
        "",
      ]);
      assertEquals(output.split("\n").slice(0, 3).map((line) => line.split(/\s+/).at(-1)), [
        "ORGANIZATION",
        "example",
        "example",
      ]);
      assertEquals((await svcMl(["profiles", "delete", "two"], { env })).code, 0);
      const gone = await svcMl(["list", "--profile", "two"], { env });
      assertEquals(gone.code, 4);
      assertStringIncludes(gone.errors, 'there is no profile "two" in ');
      assertStringIncludes(gone.errors, ": it holds one\n");
    })
  ));

Deno.test("flags override the environment, and the environment overrides the profile", () =>
  withFakeCloud((cloud) =>
    withHome(async (env) => {
      const far = { ...env, SVC_BASE_URL: "http://127.0.0.1:1", SVC_API_KEY_ID: "x", SVC_API_KEY: "x" };
      assertEquals((await svcMl(["list"], { env: far })).code, 1);
      const here = { ...far, SVC_API_KEY_ID: KEY.id, SVC_API_KEY: KEY.key };
      assertEquals((await svcMl(["list", "--base-url", cloud.url], { env: here })).code, 0);
      const login = ["login", "--base-url", cloud.url];
      const key = { SVC_API_KEY_ID: KEY.id, SVC_API_KEY: KEY.key };
      assertEquals((await svcMl(login, { env: { ...env, ...key } })).code, 0);
      assertEquals((await svcMl(["list"], { env: far })).code, 1);
      // A profile that is asked for is meant as a whole.
      assertEquals(
        (await svcMl(["list", "--profile", "default", "--base-url", cloud.url], { env: far })).code,
        0,
      );
    })
  ));

Deno.test("an organization is found by name, and required if there are several", () =>
  withFakeCloud(async (cloud) => {
    cloud.organizations.push({ id: "org-2", name: "other" });
    const env = { ...envOf(cloud), SVC_ORG_ID: "" };
    const many = await svcMl(["list"], { env });
    assertEquals(many.code, 2);
    assertStringIncludes(
      many.errors,
      "the key sees 2 organizations, example (org-1), other (org-2): tell which one",
    );
    assertEquals((await svcMl(["list", "--org-id", "other"], { env })).code, 0);
  }));

Deno.test("an unreadable file of profiles is reported with its path, and left alone", () =>
  withHome(async (env, home) => {
    await Deno.writeTextFile(`${home}/profiles.json`, '{"profiles": {"default": {"base_url": 1}}}');
    const { code, errors } = await svcMl(["list"], { env });
    assertEquals(code, 5);
    assertStringIncludes(
      errors,
      `${home}/profiles.json: profiles.default.base_url: found 1, wanted a string`,
    );
    assertEquals((await svcMl(["profiles", "delete", "default"], { env })).code, 5);
  }));

Deno.test("svc-ml submit without a control plane offers on a terminal to start one", () =>
  withHome(async (env) => {
    const submit = ["submit", "--model-type", "object-detection"];
    const { code, errors } = await svcMl(submit, { env, terminal: true, answers: ["n"] });
    assertEquals(code, 3);
    assertStringIncludes(errors, "One of your own can run on this computer");
    assertStringIncludes(errors, "Start it? [y/N] ");
    const alone = await svcMl(submit, { env });
    assertEquals(alone.errors.includes("[y/N]"), false);
    assertStringIncludes(alone.errors, "svc-ml submit --embedded");
  }));
