/** The flags for sign-in elsewhere. */

import { assertEquals, assertRejects } from "@std/assert";
import { SystemClock } from "../../../lib/base/clock.ts";
import { UsageError } from "../../flags.ts";
import { openProvider } from "./provider.ts";

const NONE = {
  oidcIssuer: "",
  oidcClient: "",
  oidcSecretFile: "",
  oidcName: "",
  oidcDomain: [] as readonly string[],
};
const GOOD = { ...NONE, oidcIssuer: "https://id.example.com/realms/main/", oidcClient: "svc-cloud" };
const FILES = { readTextFile: (path: string) => Promise.resolve(path === "full" ? "secret\n" : "\n") };

const open = (
  given: Partial<typeof GOOD>,
  main: string | undefined = "https://fleet.example",
) => openProvider({ ...NONE, ...given }, { main }, FILES, new SystemClock());

Deno.test("--oidc-…: a provider with its name, and none without the flags", async () => {
  assertEquals(await open({}), undefined);
  const provider = await open({ ...GOOD, oidcSecretFile: "full", oidcDomain: ["Example.com, example.org"] });
  assertEquals([provider!.name, provider!.issuer], ["id.example.com", "https://id.example.com/realms/main"]);
  assertEquals((await open({ ...GOOD, oidcName: "Example" }))!.name, "Example");
});

Deno.test("--oidc-…: half of the flags, no public address, an unsafe issuer and no domain are refused", async () => {
  const wrong: [Parameters<typeof open>[0], string][] = [
    [{ oidcName: "Example" }, "--oidc-issuer and --oidc-client"],
    [{ oidcIssuer: GOOD.oidcIssuer }, "wanted both"],
    [{ ...GOOD, oidcIssuer: "http://id.example.com" }, "wanted https://"],
    [{ ...GOOD, oidcDomain: ["@example.com"] }, "--oidc-domain"],
    [{ ...GOOD, oidcName: "x".repeat(100) }, "--oidc-name"],
  ];
  for (const [given, message] of wrong) await assertRejects(() => open(given), UsageError, message);
  const at = { main: undefined };
  await assertRejects(() => openProvider(GOOD, at, FILES, new SystemClock()), UsageError, "--public-url");
  await assertRejects(() => open({ ...GOOD, oidcSecretFile: "empty" }), Error, "is empty");
});
