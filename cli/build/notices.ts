/**
 * `deno task licenses`: writes the notices of the third-party software in the executables into `dist`, and a bill of
 * materials (CycloneDX) for each executable.
 *
 * The npm packages are those that an executable's modules import, and the packages that these depend on; their texts come
 * from the downloaded packages. What is inside of native code and of WebAssembly is in the table below. Equal texts stand
 * once. Every `compile` writes the notices anew and embeds them.
 */

import { DenoHost } from "../../lib/base/host_deno.ts";
import { NOTICES_FILE, VERSION } from "../version.ts";
import { type Executable, EXECUTABLES, execute, exists, INSTALLERS, ROOT } from "./compiler.ts";

export interface Notice {
  readonly name: string;
  readonly version: string;
  /** An SPDX expression. */
  readonly license: string;
  readonly source: string;
  /** Its address in a registry: `pkg:npm/mingo@7.0.1`. */
  readonly purl?: string;
  /** The text of its license; without it, the common text of `license` applies. */
  readonly text?: string;
  readonly remark?: string;
}

/** Software inside of embedded binaries, which has no npm package of its own, and of which package it is a part. */
const INSIDE: readonly (Omit<Notice, "version"> & { readonly of: string })[] = [
  {
    name: "libdatachannel",
    of: "node-datachannel",
    license: "MPL-2.0",
    source: "https://github.com/paullouisageneau/libdatachannel",
    remark: "Unmodified. The source is available there under the same license.",
  },
  {
    name: "libjuice",
    of: "node-datachannel",
    license: "MPL-2.0",
    source: "https://github.com/paullouisageneau/libjuice",
    remark: "Unmodified. The source is available there under the same license.",
  },
  {
    name: "usrsctp",
    of: "node-datachannel",
    license: "BSD-3-Clause",
    source: "https://github.com/sctplab/usrsctp",
  },
  {
    name: "libsrtp",
    of: "node-datachannel",
    license: "BSD-3-Clause",
    source: "https://github.com/cisco/libsrtp",
  },
  { name: "plog", of: "node-datachannel", license: "MIT", source: "https://github.com/SergiusTheBest/plog" },
  {
    name: "OpenSSL",
    of: "node-datachannel",
    license: "Apache-2.0",
    source: "https://www.openssl.org/source/",
  },
  {
    name: "libav.js",
    of: "@libav.js/variant-webm",
    license: "LGPL-2.1",
    source: "https://github.com/Yahweasel/libav.js",
    remark:
      "Unmodified WebAssembly. Whoever builds svc-server from source may replace it by a build of their own.",
  },
  {
    name: "FFmpeg",
    of: "@libav.js/variant-webm",
    license: "LGPL-2.1",
    source: "https://ffmpeg.org/releases/",
    remark: "A part of libav.js.",
  },
  {
    name: "libvpx",
    of: "@libav.js/variant-webm",
    license: "BSD-3-Clause",
    source: "https://chromium.googlesource.com/webm/libvpx",
  },
  {
    name: "libopus",
    of: "@libav.js/variant-webm",
    license: "BSD-3-Clause",
    source: "https://opus-codec.org",
  },
  {
    name: "ONNX Runtime",
    of: "onnxruntime-node",
    license: "MIT",
    source: "https://github.com/microsoft/onnxruntime",
  },
  { name: "DuckDB", of: "@duckdb/node-api", license: "MIT", source: "https://github.com/duckdb/duckdb" },
];

/** The runtime in every executable. */
const RUNTIME: readonly Notice[] = [
  { name: "Deno", version: Deno.version.deno, license: "MIT", source: "https://github.com/denoland/deno" },
  { name: "V8", version: Deno.version.v8, license: "BSD-3-Clause", source: "https://v8.dev" },
];

/** Licenses whose common text is in `licenses/`. */
const COMMON = ["Apache-2.0", "BSD-3-Clause", "LGPL-2.1", "MIT", "MPL-2.0"];
/** The license of a package that names none, and has its text. */
const SEE_TEXT = "see its text";
/** An expression of SPDX, as far as packages use them: `MIT`, `(Apache-2.0 AND BSD-3-Clause)`. */
const SPDX = /^\(?[\w.+-]+(?: (?:AND|OR|WITH) [\w.+-]+)*\)?$/;
const LICENSE_NAME = /^(licen[cs]e|copying|notice)/i;
/** Packages that no executable has: types, and addons of other systems. */
const ABSENT =
  /^(@types\/|@node-datachannel\/(?!linux-x64-gnu$)|@duckdb\/node-bindings-(?!linux-x64$)|bare-|@esbuild\/)/;

/** Where the bill of materials of an executable is, from the root of the tree. */
export function billFile(executable: string): string {
  return `dist/${executable}.cdx.json`;
}

/** Writes the notices and the bills of materials; returns the number of pieces of software. */
export async function writeNotices(): Promise<number> {
  await Deno.mkdir(`${ROOT}dist`, { recursive: true });
  const ofPage = await pagePackages();
  const all = new Map<string, Notice>();
  for (const executable of EXECUTABLES) {
    const packages = [...await importedPackages(executable), ...executable.page ? ofPage : []];
    const versions = new Map(packages.map(({ name, version }) => [name, version]));
    const inside = INSIDE.flatMap(({ of, ...one }) =>
      versions.has(of) ? [{ ...one, version: `in ${of} ${versions.get(of)}` }] : []
    );
    const notices = [...RUNTIME, ...inside, ...packages];
    for (const one of notices) all.set(`${one.name}@${one.version}`, one);
    await Deno.writeTextFile(`${ROOT}${billFile(executable.name)}`, sbomText(executable.name, notices));
  }
  const sorted = [...all.keys()].sort().map((key) => all.get(key)!);
  await Deno.writeTextFile(`${ROOT}${NOTICES_FILE}`, noticesText(sorted, await commonTexts()));
  return sorted.length;
}

/** The bill of materials of a program (CycloneDX 1.6, JSON): the same bytes for the same software. */
export function sbomText(program: string, all: readonly Notice[]): string {
  const components = all.map(({ name, version, license, source, purl }) => ({
    type: "library",
    name,
    version,
    ...purl === undefined ? {} : { purl, "bom-ref": purl },
    licenses: [SPDX.test(license) ? { expression: license } : { license: { name: license } }],
    externalReferences: [{ type: "website", url: source.replace(/^git\+/, "") }],
  }));
  const seen = new Set<string>();
  const once = components.filter(({ name, version }) => {
    const key = `${name}@${version}`;
    return !seen.has(key) && seen.add(key);
  });
  const bom = {
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    version: 1,
    metadata: { component: { type: "application", name: program, version: VERSION } },
    components: once,
  };
  return `${JSON.stringify(bom, null, 2)}\n`;
}

/** The address of a package of npm's registry. */
function npmAddress(name: string, version: string): string {
  return `pkg:npm/${name.replace("@", "%40")}@${version}`;
}

/** The whole file: a line for each piece of software, then each text with those that it is for. */
export function noticesText(all: readonly Notice[], common: ReadonlyMap<string, string>): string {
  const lines = ["Third-party software in these programs.", ""];
  const texts = new Map<string, string[]>();
  for (const { name, version, license, source, text, remark } of all) {
    const title = `${name} ${version}`;
    lines.push(`${title}: ${license}, ${source}`);
    if (remark) lines.push(`    ${remark}`);
    const own = text === undefined ? [] : [plain(text)];
    const shared = COMMON.filter((one) => license.includes(one)).map((one) => common.get(one) ?? "");
    for (const one of own.length > 0 ? own : shared) texts.set(one, [...texts.get(one) ?? [], title]);
  }
  for (const [text, titles] of texts) lines.push("", "-".repeat(80), titles.join(", "), "", text);
  return `${lines.join("\n")}\n`;
}

/** Without characters that a terminal would interpret. */
function plain(text: string): string {
  // deno-lint-ignore no-control-regex
  return text.replaceAll("\r\n", "\n").replaceAll("\t", "    ").replaceAll(/[\x00-\x09\x0b-\x1f\x7f]/g, "")
    .trim();
}

async function commonTexts(): Promise<Map<string, string>> {
  const read = async (name: string): Promise<[string, string]> => {
    return [name, plain(await Deno.readTextFile(`${ROOT}cli/build/licenses/${name}.txt`))];
  };
  return new Map(await Promise.all(COMMON.map(read)));
}

/** A package, as `deno info` describes it. */
interface PackageInfo {
  readonly name: string;
  readonly version: string;
  /** Keys of others. */
  readonly dependencies: readonly string[];
  readonly localPath?: string;
}

/** The packages that an executable's modules import, and those that they depend on. */
async function importedPackages({ entry, later = [], without = [] }: Executable): Promise<Notice[]> {
  const { modules, npmPackages } = await moduleGraph([entry, ...later]);
  const wanted = new Map<string, PackageInfo>();
  const add = (key: string) => {
    const found = npmPackages[key];
    if (!found || wanted.has(key) || without.includes(found.name)) return;
    if (ABSENT.test(found.name) || INSTALLERS.includes(found.name)) return;
    wanted.set(key, found);
    for (const one of found.dependencies) add(one);
  };
  for (const { npmPackage } of modules) if (npmPackage !== undefined) add(npmPackage);

  const found: Notice[] = [];
  for (const key of [...wanted.keys()].sort()) {
    const { name, version, localPath } = wanted.get(key)!;
    if (localPath !== undefined && await exists(`${localPath}/package.json`)) {
      found.push(await noticeIn(localPath, name, version));
    }
  }
  return found;
}

/** What these modules import, directly and indirectly. */
async function moduleGraph(paths: readonly string[]) {
  const entry = await Deno.makeTempFile({ suffix: ".ts" });
  try {
    await Deno.writeTextFile(
      entry,
      paths.map((path) => `import "${new URL(path, `file://${ROOT}`)}";\n`).join(""),
    );
    const { code, output, errors } = await execute(Deno.execPath(), [
      ...["info", "--json", "--config", `${ROOT}deno.json`, entry],
    ]);
    if (code !== 0) throw new Error(`Cannot list the packages of ${paths[0]}:\n${errors.trimEnd()}`);
    return JSON.parse(output) as {
      readonly modules: readonly { readonly npmPackage?: string }[];
      readonly npmPackages: Readonly<Record<string, PackageInfo>>;
    };
  } finally {
    await Deno.remove(entry);
  }
}

/** The packages of the machine's page, as far as they are installed. */
async function pagePackages(): Promise<Notice[]> {
  const folder = `${ROOT}lib/web`;
  const lock = JSON.parse(await Deno.readTextFile(`${folder}/package-lock.json`)) as {
    packages: Record<string, { version?: string; dev?: boolean; license?: string }>;
  };
  const found: Notice[] = [];
  for (const [path, { version = "", dev, license }] of Object.entries(lock.packages)) {
    const name = path.split("node_modules/").at(-1)!;
    if (path === "" || dev || ABSENT.test(name)) continue;
    const isThere = await exists(`${folder}/${path}/package.json`);
    found.push(
      isThere ? await noticeIn(`${folder}/${path}`, name, version) : {
        name,
        version,
        license: license ?? "see the source",
        source: `https://www.npmjs.com/package/${name}`,
        purl: npmAddress(name, version),
      },
    );
  }
  return found;
}

async function noticeIn(folder: string, name: string, version: string): Promise<Notice> {
  const { license, licenses, repository } = JSON.parse(await Deno.readTextFile(`${folder}/package.json`));
  const texts: string[] = [];
  for await (const { name: file, isFile } of Deno.readDir(folder)) {
    if (isFile && LICENSE_NAME.test(file)) texts.push(await Deno.readTextFile(`${folder}/${file}`));
  }
  const named = license?.type ?? license ?? licenses?.[0]?.type;
  const address = repository?.url ?? repository;
  return {
    name,
    version,
    license: typeof named === "string" ? named : texts.length > 0 && SEE_TEXT || "see the source",
    source: typeof address === "string" ? address : `https://www.npmjs.com/package/${name}`,
    purl: npmAddress(name, version),
    ...texts.length > 0 && { text: texts.sort().join("\n\n") },
  };
}

if (import.meta.main) {
  const count = await writeNotices();
  const bills = EXECUTABLES.map(({ name }) => billFile(name)).join(", ");
  new DenoHost().write(`${NOTICES_FILE}, ${bills}: ${count} pieces of software\n`);
}
