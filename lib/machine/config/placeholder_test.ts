import { assertEquals, assertMatch } from "@std/assert";
import { packageFolder, versionInFolder } from "./placeholder.ts";
import type { PackageConfig } from "./settings.ts";

const ORGANIZATION = "3f0c9d1e-5b7a-4c1d-9e2f-0123456789ab";

function packageOf(id: string, version: string): PackageConfig {
  return { name: "p", type: "module", package: id, version };
}

Deno.test("packageFolder: usual packages have the published place", () => {
  const cases = [
    [`${ORGANIZATION}/my-model`, "1.2.3", `${ORGANIZATION}-my-model-1_2_3`],
    ["acme/probe", "latest", "acme-probe-latest"],
    ["acme:probe", "1.2.0", "acme:probe-1_2_0"],
  ];
  for (const [id, version, name] of cases) {
    assertEquals(packageFolder("/home", packageOf(id, version)), `/home/packages/data/module/${name}`);
  }
});

Deno.test("packageFolder: no two packages share a folder, and its name leads back to the version", () => {
  const ids = [
    "a/b-c",
    "a-b/c",
    "a/b/c",
    "a\\b/c",
    "a-b-c",
    "a/b",
    "a-b",
    "a",
    `${ORGANIZATION}/x`,
    `${ORGANIZATION}/x-1`,
    "3f0c9d1e/5b7a-4c1d-9e2f-0123456789ab-x",
  ];
  const versions = ["1.0", "1_0", "1", "1-0", "1.0-rc1", "0", "1/0", "c-1.0"];
  const folders = new Map<string, string>();
  for (const id of ids) {
    for (const version of versions) {
      const config = packageOf(id, version);
      const folder = packageFolder("/home", config);
      assertMatch(folder, /^\/home\/packages\/data\/module\/[^/\\]+$/);
      const other = folders.get(folder);
      assertEquals(other, undefined, `${id} ${version} and ${other}`);
      folders.set(folder, `${id} ${version}`);
      if (!version.includes("/")) assertEquals(versionInFolder(folder, config), version);
    }
  }
});
