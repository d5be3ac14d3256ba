import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { main } from "../ml/main.ts";
import { NOTICES_FILE } from "../version.ts";
import { ROOT } from "./compiler.ts";
import { billFile, noticesText, sbomText, writeNotices } from "./notices.ts";

let writing: Promise<number> | undefined;
/** Takes seconds, and gives the same each time. */
const written = () => writing ??= writeNotices();
const MIT = new Map([["MIT", "Permission is granted"]]);

Deno.test("notices name each piece of software once, and each text once with all that it is for", () => {
  const one = { version: "1", source: "https://x", license: "MIT" };
  const text = noticesText([
    { ...one, name: "a", text: "own text\r\n\tof a\x1b[31m" },
    { ...one, name: "b" },
    { ...one, name: "c", remark: "unmodified" },
    { ...one, name: "d", license: "(MIT OR GPL-3.0)" },
  ], MIT);
  assertEquals(text.split("\n").filter((line) => line.startsWith("b 1")), [
    "b 1: MIT, https://x",
    "b 1, c 1, d 1",
  ]);
  assertStringIncludes(text, "    unmodified\n");
  assertStringIncludes(text, "own text\n    of a[31m");
  assertEquals(text.split("Permission is granted").length, 2);
});

Deno.test("the bill of materials has each version of a piece of software once, with license and address", () => {
  const one = { version: "1", license: "MIT", source: "git+https://x/a.git" };
  const text = sbomText("svc-ml", [
    { ...one, name: "@a/b", purl: "pkg:npm/%40a/b@1" },
    { ...one, name: "@a/b", purl: "pkg:npm/%40a/b@1" },
    { ...one, name: "c", license: "see its text" },
  ]);
  const { bomFormat, components } = JSON.parse(text);
  assertEquals([bomFormat, components.length], ["CycloneDX", 2]);
  assertEquals(components[0], {
    type: "library",
    name: "@a/b",
    version: "1",
    purl: "pkg:npm/%40a/b@1",
    "bom-ref": "pkg:npm/%40a/b@1",
    licenses: [{ expression: "MIT" }],
    externalReferences: [{ type: "website", url: "https://x/a.git" }],
  });
  assertEquals(components[1].licenses, [{ license: { name: "see its text" } }]);
});

Deno.test("the notices cover the native code, and every package has a license; --licenses prints them", async () => {
  const count = await written();
  const text = await Deno.readTextFile(`${ROOT}${NOTICES_FILE}`);
  assert(count > 100);
  for (
    const name of ["libdatachannel", "libav.js", "ONNX Runtime", "Deno", "V8", "postgres", "node-datachannel"]
  ) {
    assert(new RegExp(`^${name} .*: .+, .+$`, "m").test(text), name);
  }
  for (const word of ["Mozilla Public License", "GNU LESSER GENERAL PUBLIC LICENSE", "MIT License"]) {
    assertStringIncludes(text, word);
  }
  const unnamed = [...text.matchAll(/^(.+): see its text,/gm)].map(([, title]) => title);
  const heads = text.split("\n").flatMap((line, at, all) =>
    all[at - 1]?.startsWith("-----") ? line.split(", ") : []
  );
  assertEquals(unnamed.filter((title) => !heads.includes(title)), []);
  const host = new DenoHost();
  let printed = "";
  host.write = (part) => void (printed += part);
  assertEquals(await main(["--licenses"], host), 0);
  assertEquals(printed, text);
});

Deno.test("each executable's bill of materials has what it imports, and nothing that only tests use", async () => {
  await written();
  const namesIn = async (executable: string) => {
    const { metadata, components } = JSON.parse(await Deno.readTextFile(`${ROOT}${billFile(executable)}`));
    assertEquals(metadata.component.name, executable);
    return new Set<string>(components.map(({ name }: { readonly name: string }) => name));
  };
  const bills = {
    "svc-server": ["node-datachannel", "libdatachannel", "@libav.js/variant-webm", "libav.js", "svelte"],
    "svc-micro-server": ["Deno", "@bufbuild/protobuf"],
    "svc-agent": ["node-datachannel"],
    "svc-ml": ["Deno", "@bufbuild/protobuf"],
    "svc-cloud": ["postgres", "@duckdb/node-api", "DuckDB", "onnxruntime-node", "ONNX Runtime", "svelte"],
  };
  for (const [executable, wanted] of Object.entries(bills)) {
    const names = await namesIn(executable);
    assertEquals(wanted.filter((name) => !names.has(name)), [], executable);
    const onlyTests = ["oidc-provider", "playwright-core", "axe-core", "typescript"];
    assertEquals(onlyTests.filter((name) => names.has(name)), [], executable);
  }
  assert(!(await namesIn("svc-ml")).has("DuckDB"));
  assert(!(await namesIn("svc-micro-server")).has("libdatachannel"));
});
