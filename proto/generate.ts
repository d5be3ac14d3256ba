/**
 * Generates proto/gen/*_pb.ts from proto/*.proto, or with --check says which of those files are stale.
 *
 * Owns the choice of generators: buf and protoc-gen-es, both from npm at exact versions. buf's program comes
 * as a ready-made platform package (Linux, macOS, Windows), so no install script runs and nothing but npm is
 * asked. Promises the same output for the same input on every system.
 *
 *     deno task gen            rewrites proto/gen
 *     deno task gen --check    changes nothing; exits 1 and lists the files that differ
 */

const BUF = "npm:@bufbuild/buf@1.74.0";
const PROTOC_GEN_ES = "npm:@bufbuild/protoc-gen-es@2.17.0";

const protoDir = import.meta.dirname!;

/** Runs the generators over every contract in proto/ and writes the TypeScript files into `outDir`. */
async function generate(outDir: string): Promise<void> {
  const deno = [Deno.execPath(), "run", "--quiet", "--no-lock", "--no-config", "-A"];
  const template = {
    version: "v2",
    clean: true,
    plugins: [{
      local: [...deno, PROTOC_GEN_ES],
      out: outDir,
      opt: ["target=ts", "import_extension=ts"],
    }],
  };
  const [program, ...args] = [...deno, BUF, "generate", protoDir, "--template", JSON.stringify(template)];
  const command = new Deno.Command(program, { args, cwd: protoDir, stdin: "null" });
  const { code } = await command.spawn().status;
  if (code !== 0) throw new Error(`generating TypeScript from ${protoDir}: buf exited with code ${code}`);
  for (const [name, text] of await readGenerated(outDir)) {
    await Deno.writeTextFile(`${outDir}/${name}`, withLazyDescriptors(text));
  }
}

/** A generated file whose descriptors come from proto/lazy.ts, which is told the names of its services. */
function withLazyDescriptors(text: string): string {
  const names = Array.from(text.matchAll(/^ \* @generated from service (\S+)$/gm), (match) => match[1]);
  return text
    .replace(/^(import \{ .*fileDesc.* \} from) "@bufbuild\/protobuf\/codegenv2";$/m, '$1 "../lazy.ts";')
    .replace(/serviceDesc\((\w+), (\d+)\)/g, (_, file, index) => {
      return `serviceDesc(${file}, ${index}, "${names[index]}")`;
    });
}

/** The generated files of a folder by name. A folder that is not there has none. */
async function readGenerated(dir: string): Promise<Map<string, string>> {
  const files = new Map<string, string>();
  try {
    for await (const entry of Deno.readDir(dir)) {
      files.set(entry.name, await Deno.readTextFile(`${dir}/${entry.name}`));
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return files;
}

/** Names of the files in proto/gen that a fresh generation would add, change or remove, sorted. */
export async function staleFiles(): Promise<string[]> {
  const freshDir = await Deno.makeTempDir({ prefix: "proto-gen-" });
  try {
    await generate(freshDir);
    const [fresh, present] = await Promise.all([
      readGenerated(freshDir),
      readGenerated(`${protoDir}/gen`),
    ]);
    const names = new Set([...fresh.keys(), ...present.keys()]);
    return [...names].filter((name) => fresh.get(name) !== present.get(name)).sort();
  } finally {
    await Deno.remove(freshDir, { recursive: true });
  }
}

function say(line: string): void {
  Deno.stderr.writeSync(new TextEncoder().encode(`${line}\n`));
}

async function main(args: string[]): Promise<number> {
  if (args.length === 0) {
    await generate(`${protoDir}/gen`);
    return 0;
  }
  if (args.length > 1 || args[0] !== "--check") {
    say(`generate.ts takes no argument or --check; found ${args.join(" ")}`);
    return 2;
  }
  const stale = await staleFiles();
  for (const name of stale) say(`proto/gen/${name} is stale; run: deno task gen`);
  return stale.length === 0 ? 0 : 1;
}

if (import.meta.main) Deno.exit(await main(Deno.args));
